.PHONY: run test test-all test-core fmt lint type contract docs yardsticks explore browser bench all
run:
	./run
test test-all test-core fmt lint type contract docs yardsticks explore browser bench:
	./run $@
all: fmt lint type contract test-all test-core docs browser yardsticks
