.PHONY: run test leaner fmt lint type contract docs bench all
run:
	./run
test leaner fmt lint type contract docs bench:
	./run $@
all: fmt lint type contract test leaner docs
