# Two commands: `make demo` shows the main job, `make test` checks everything.
# Both first install the packages that they need, or name them.

# Where rustup puts cargo, for shells that have not been told yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: demo test bench

demo:
	@scripts/setup demo
	@cargo xtask demo

test:
	@scripts/setup test
	@cargo xtask ci

# Figures of the data path beside those of other programs; not part of the tests.
bench:
	@scripts/setup bench
	@cargo xtask bench datapath
