.PHONY: run test leaner fmt lint type contract docs explore browser bench all
run:
	./run
test leaner fmt lint type contract docs explore browser bench:
	./run $@
all: fmt lint type contract test leaner docs browser
