# Two commands: `make demo` shows the main job, `make test` checks everything.
# Both first install the packages that they need, or name them.

# Where rustup puts cargo, for shells that have not been told yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: demo test bench install uninstall

# Where `make install` puts it; DESTDIR is for packages.
PREFIX ?= /usr/local
DIST := target/dist

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

# `make install PREFIX=$$HOME/.local` needs no root. What is built is what `make demo` builds.
install:
	@test -x $(DIST)/bin/ferroce || cargo xtask dist
	@cd $(DIST) && find bin lib share \( -type f -o -type l \) ! -name '*.new' | while read -r file; do \
		mkdir -p "$(DESTDIR)$(PREFIX)/$$(dirname "$$file")" && \
		cp -Pf "$$file" "$(DESTDIR)$(PREFIX)/$$file" || exit 1; done
	@echo "installed below $(DESTDIR)$(PREFIX): $(PREFIX)/bin/ferroce run -- PROGRAM"

uninstall:
	@cd $(DIST) && find bin lib share \( -type f -o -type l \) | while read -r file; do \
		rm -f "$(DESTDIR)$(PREFIX)/$$file"; done
	@rmdir "$(DESTDIR)$(PREFIX)/lib/ferroce" 2>/dev/null || true
