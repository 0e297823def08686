// The algebra of the library, in a thread of its own: however long it thinks, the page does not freeze.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const MODULES = "/explorer";

async function start() {
  const [python, packed] = await Promise.all([
    loadPyodide({ indexURL: new URL("./pyodide/", import.meta.url).href }),
    fetch(new URL("./incidence.zip", import.meta.url)).then((response) => response.arrayBuffer()),
  ]);
  python.unpackArchive(packed, "zip", { extractDir: MODULES });
  python.runPython(`import sys; sys.path.insert(0, "${MODULES}")`);
  const { reply } = python.pyimport("incidence.plot.explorer");
  self.onmessage = ({ data }) => {
    try {
      self.postMessage({ key: data, reply: reply(data) });
    } catch (error) {
      self.postMessage({ key: data, failure: String(error) });
    }
  };
  reply('["summary","i -> i",1]'); // what is slow the first time is over when somebody types
  self.postMessage({ ready: true });
}

start().catch((error) => self.postMessage({ failure: String(error) }));
