.PHONY: run test fmt lint type contract docs bench all
run:
	./run
test fmt lint type contract docs bench:
	./run $@
all: fmt lint type contract test docs
