"""Shards: files of many examples, from which single examples are taken without reading the rest.

A shard is a batch of examples as `Example.save` writes it, with pointers to the rows of every
example. Its arrays are not packed, so they are mapped into memory, and the system reads the pages
that an example needs. Beside a shard is a JSON file with its checksum, written last.
"""

from incidence.data.shards.examples import ShardedExamples
from incidence.data.shards.folder import ShardFolder, digest_of
from incidence.data.shards.reading import Shard
from incidence.data.shards.texts import ShardedTexts
from incidence.data.shards.writing import write_shard

__all__ = ["Shard", "ShardFolder", "ShardedExamples", "ShardedTexts", "digest_of", "write_shard"]
