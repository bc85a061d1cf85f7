# Brim's build: plain GNU make, no configure step.
#
#   make            the programs, in build/             make test       everything, with a count at the end
#   make run        a demonstration (ORIGIN=… yours)    make check      format, layers, static analysis
#   make unit|e2e|fuzz|vm|bench                          make install    DESTDIR= PREFIX=/usr/local
#
# Sources are found by wildcard. Each variant (another compiler, a sanitizer) has a build directory
# of its own, so that switching back and forth rebuilds nothing; a change of flags within a variant
# rebuilds that variant. V=1 shows commands, T=word narrows unit, fuzz, e2e and vm to matching tests.

VERSION = 0.1.0
PREFIX = /usr/local
CC = gcc
SANITIZE =
FUZZ_SECONDS = 10
E2E_SANITIZE = 1
JOBS := $(shell nproc)

ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(JOBS)
endif
MAKEFLAGS += --no-print-directory --no-builtin-rules --no-builtin-variables
.DELETE_ON_ERROR:
.SUFFIXES:

# --- variants: build/, build/asan, build/clang, build/clang-asan, …

comma := ,
compiler := $(if $(findstring clang,$(notdir $(CC))),clang)
sanitizer := $(if $(findstring fuzzer,$(SANITIZE)),fuzz,$(if $(filter address%,$(SANITIZE)),asan,$(subst $(comma),-,$(SANITIZE))))
empty :=
space := $(empty) $(empty)
B := build$(addprefix /,$(subst $(space),-,$(strip $(compiler) $(sanitizer))))

# --- flags

PACKAGES = libuv lmdb libcjson libssl libcrypto libxxhash libnghttp2
# Asked once; «make test» and «make run» install what is missing and then start make anew.
ifneq ($(filter-out deps run test test-long clean format where check-format check-layers check-cppcheck,$(or $(MAKECMDGOALS),all)),)
package_cflags := $(shell pkg-config --cflags $(PACKAGES))
package_libs := $(shell pkg-config --libs $(PACKAGES))
ifeq ($(package_libs),)
$(error libraries or pkg-config are missing: run tests/deps (as root) to install them)
endif
endif

WARNINGS = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wvla -Wformat=2
ifeq ($(SANITIZE),)
hardening = -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
else
# gcc's flow warnings are unreliable under instrumentation; the plain builds are the strict ones.
hardening = -O1 -fno-omit-frame-pointer -fsanitize=$(SANITIZE) -fno-sanitize-recover=all \
	$(if $(compiler),,-Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-format-truncation)
endif
CPPFLAGS = -I. -D_GNU_SOURCE -DBRIM_VERSION='"$(VERSION)"' $(package_cflags)
CFLAGS =
compile_flags = -std=gnu11 -g $(WARNINGS) -fno-common -fstack-protector-strong -fPIE $(hardening) $(CPPFLAGS) $(CFLAGS)
link_flags = -pie -Wl,-z,relro,-z,now $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)
libs = $(package_libs) -lpthread

# --- sources

layers = edge edge/base edge/http conf cache origin
sources := $(sort $(wildcard $(addsuffix /*.c,$(layers))))
headers := $(sort $(wildcard $(addsuffix /*.h,$(layers))))
mains = edge/main.c edge/brimctl.c
# The settable clock stands in for clock.c in brim-test alone.
test_clock = edge/base/clock_test.c
library_objects := $(patsubst %.c,$(B)/obj/%.o,$(filter-out $(mains) $(test_clock),$(sources)))

unit_sources := $(sort $(shell find tests/unit -name '*_test.c' 2>/dev/null))
fuzz_sources := $(sort $(wildcard tests/fuzz/*_fuzz.c))
bench_sources := $(sort $(wildcard tests/bench/*.c))
unit_programs := $(patsubst %.c,$(B)/%,$(unit_sources))
differential_sources = tests/differential/read.c
fuzz_programs := $(patsubst tests/fuzz/%.c,$(B)/tests/fuzz/%,$(fuzz_sources))
bench_programs := $(patsubst tests/bench/%.c,$(B)/bench/%,$(bench_sources))
programs = $(B)/brim $(B)/brimctl
tracked_c = $(or $(shell git ls-files '*.c' '*.h' 2>/dev/null),$(sources) $(headers))

ifeq ($(V),)
Q = @
say = @printf '  %-6s %s\n'
else
Q =
say = @:
endif

.PHONY: all test-binary unit-programs fuzz-programs bench-programs
all: $(programs)
test-binary: $(B)/brim-test $(B)/brimctl
unit-programs: $(unit_programs) $(differential_sources:%.c=$(B)/%)
fuzz-programs: $(fuzz_programs)
bench-programs: $(bench_programs)

$(B)/brim: $(B)/obj/edge/main.o $(B)/libbrim.a
$(B)/brimctl: $(B)/obj/edge/brimctl.o $(B)/libbrim.a
$(B)/brim-test: $(B)/obj/edge/main.o $(B)/obj/$(test_clock:.c=.o) $(B)/libbrim.a
$(programs) $(B)/brim-test:
	$(say) LINK $@
	$(Q)$(CC) $(link_flags) -o $@ $(filter %.o %.a,$^) $(libs)

# Made anew each time, so that an object whose source is gone does not stay in it.
$(B)/libbrim.a: $(library_objects) $(B)/obj/.objects
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)

$(B)/obj/%.o: %.c $(B)/obj/.flags
	$(say) CC $@
	$(Q)mkdir -p $(@D) && $(CC) $(compile_flags) -MMD -MP -c -o $@ $<

# Built into it by the assembler, which tells nobody.
$(B)/obj/edge/admin_page.o: edge/admin_page.html

cmocka_flags = $(shell pkg-config --cflags cmocka)
cmocka_libs = $(shell pkg-config --libs cmocka)
$(B)/tests/unit/%: tests/unit/%.c $(B)/libbrim.a $(B)/obj/.flags
	$(say) UNIT $@
	$(Q)mkdir -p $(@D) && $(CC) $(compile_flags) $(cmocka_flags) -MMD -MP -MF $@.d -MT $@ $(link_flags) \
		-o $@ $< $(B)/libbrim.a $(cmocka_libs) $(libs)

$(B)/tests/differential/%: tests/differential/%.c $(B)/libbrim.a $(B)/obj/.flags
	$(say) LINK $@
	$(Q)mkdir -p $(@D) && $(CC) $(compile_flags) -MMD -MP -MF $@.d -MT $@ $(link_flags) -o $@ $< $(B)/libbrim.a $(libs)

# The library is built for coverage (fuzzer-no-link), the target itself with libFuzzer's main.
$(B)/tests/fuzz/%: tests/fuzz/%.c $(B)/libbrim.a $(B)/obj/.flags
	$(say) FUZZ $@
	$(Q)mkdir -p $(@D) && $(CC) $(compile_flags) -Wno-missing-prototypes -MMD -MP -MF $@.d -MT $@ \
		-fsanitize=fuzzer $(link_flags) -o $@ $< $(B)/libbrim.a $(libs)

$(B)/bench/%: tests/bench/%.c $(B)/libbrim.a $(B)/obj/.flags
	$(say) BENCH $@
	$(Q)mkdir -p $(@D) && $(CC) $(compile_flags) -MMD -MP -MF $@.d -MT $@ $(link_flags) \
		-o $@ $< $(B)/libbrim.a $(libs)

# Stamps that change only when what they hold does: the flags, and the list of objects.
.PHONY: force
$(B)/obj/.flags: export text = $(CC) $(compile_flags) $(link_flags)
$(B)/obj/.objects: export text = $(library_objects)
$(B)/obj/.flags $(B)/obj/.objects: force
	@mkdir -p $(@D); printf '%s\n' "$$text" | cmp -s - $@ || printf '%s\n' "$$text" > $@

-include $(shell find $(B)/obj $(B)/tests $(B)/bench $(B)/syntax -name '*.d' 2>/dev/null)

# --- tests

asan = SANITIZE=address,undefined
fuzzing = CC=clang SANITIZE=fuzzer-no-link,address,undefined

.PHONY: unit fuzz e2e vm check check-format check-layers check-syntax check-cppcheck format bench
.PHONY: test test-long deps run install clean where
unit:
	@$(MAKE) $(asan) unit-programs
	@tests/run unit $(T)

fuzz:
	@$(MAKE) $(fuzzing) fuzz-programs
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run fuzz $(T)

# With the variant that is asked for: make SANITIZE=address,undefined e2e
e2e: test-binary
	@E2E_SANITIZE=0 BRIM_BIN=$(B)/brim-test BRIMCTL_BIN=$(B)/brimctl tests/run e2e $(T)

# End to end on a kernel with kTLS (tests/vm).
vm: test-binary
	@tests/run vm $(T)

check:
	@tests/run check $(T)

check-format:
	@clang-format --dry-run -Werror $(tracked_c)

check-layers:
	@tests/lint/layers && echo ok the tree
	@tests/lint/layers_test

# Everything that is C, main files and tests too, by the other compiler.
all_c = $(sources) $(unit_sources) $(differential_sources) $(fuzz_sources) $(bench_sources)
check-syntax: $(patsubst %.c,$(B)/syntax/%.ok,$(all_c))
$(B)/syntax/%.ok: %.c $(B)/obj/.flags
	$(say) CHECK $<
	$(Q)mkdir -p $(@D) && $(CC) $(compile_flags) $(cmocka_flags) $(if $(filter $(fuzz_sources),$<),-Wno-missing-prototypes) \
		-MMD -MP -MF $@.d -MT $@ -fsyntax-only $< && touch $@

# Off: what it misreads (an attribute after a declarator, a CHECK that asks for NULL, memory given away
# through a conditional expression; the sanitizers find leaks), and getpwnam, which the master alone calls.
cppcheck_off = missingInclude missingIncludeSystem unmatchedSuppression internalAstError \
	nullPointerRedundantCheck ctunullpointer memleak getpwnamCalled
check-cppcheck:
	@mkdir -p build/cppcheck
	@cppcheck --quiet --std=c11 --library=posix,gnu --enable=warning,performance,portability \
		--inline-suppr --error-exitcode=1 $(addprefix --suppress=,$(cppcheck_off)) \
		-D_GNU_SOURCE -D__linux__ -DBRIM_VERSION='"$(VERSION)"' -I. -j$(JOBS) \
		--cppcheck-build-dir=build/cppcheck $(sources)

format:
	clang-format -i $(tracked_c)

bench: all bench-programs
	@tests/bench/bench

test:
	@tests/deps
	@SANITIZE=$(SANITIZE) FUZZ_SECONDS=$(FUZZ_SECONDS) E2E_SANITIZE=$(E2E_SANITIZE) tests/run all

test-long:
	@tests/deps long
	@SANITIZE=$(SANITIZE) FUZZ_SECONDS=300 E2E_SANITIZE=2 LONG=1 tests/run all

deps:
	@tests/deps

where:
	@echo $(B)

# --- for people

run:
	@tests/deps run
	@$(MAKE) all
	@exec tests/demo $(if $(ORIGIN),--origin '$(ORIGIN)')

install: all
	install -D -m 755 build/brim $(DESTDIR)$(PREFIX)/sbin/brim
	install -D -m 755 build/brimctl $(DESTDIR)$(PREFIX)/bin/brimctl
	install -D -m 644 docs/man/brim.8 $(DESTDIR)$(PREFIX)/share/man/man8/brim.8
	install -D -m 644 docs/man/brimctl.1 $(DESTDIR)$(PREFIX)/share/man/man1/brimctl.1
	mkdir -p $(DESTDIR)$(PREFIX)/share/man/man5
	docs/man/from-configuration > $(DESTDIR)$(PREFIX)/share/man/man5/brim.json.5
	install -D -m 644 docs/completions/brimctl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/brimctl
	install -D -m 644 docs/completions/_brimctl $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_brimctl
	install -D -m 644 docs/completions/brimctl.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/brimctl.fish
	mkdir -p $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/sysusers.d $(DESTDIR)$(PREFIX)/lib/modules-load.d
	sed 's,@PREFIX@,$(PREFIX),g' systemd/brim.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/brim.service
	install -m 644 systemd/brim.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/brim.conf
	install -m 644 systemd/brim.modules $(DESTDIR)$(PREFIX)/lib/modules-load.d/brim.conf
	test -e $(DESTDIR)/etc/brim/brim.json || install -D -m 644 systemd/brim.json $(DESTDIR)/etc/brim/brim.json

clean:
	rm -rf build
