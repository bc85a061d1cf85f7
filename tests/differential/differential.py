#!/usr/bin/python3
"""Two readings of the same fields: differential.py READ [COUNT [SEED]]

READ is the program that tests/differential/read.c makes. For each kind of value COUNT cases are made
from pieces that matter to it, are given to READ and to reading.py, and must come out the same. The
cases are the same each time, unless a SEED is given ("time": another each time).
"""
import random
import subprocess
import sys
import time

import reading

CONTROL = [b"max-age", b"s-maxage", b"stale-while-revalidate", b"stale-if-error", b"no-store", b"no-cache", b"private",
           b"public", b"must-revalidate", b"proxy-revalidate", b"immutable", b"must-understand", b"no-transform",
           b"Max-Age", b"PRIVATE", b"x", b"max-stale", b"min-fresh", b"only-if-cached"]
CONTROL_VALUES = [b"=0", b"=60", b"=60", b"=061", b"=99999999999", b"=\"60\"", b"=-1", b"=1.5", b"=", b" = 1", b"=\"a, b\"",
                  b"=\"Set-Cookie\"", b"=a", b"=\"\"", b"=\"a b\"", b"=\"\\a\"", b"=?1", b"=?0", b"=(a \"b\")", b";x=1", b"=\"a",
                  b"", b"", b"", b""]
STRUCTURED = [b"a", b"b", b"*", b"x-y.z_", b"=", b"=", b";", b"; ", b" ;", b",", b", ", b"\t,\t", b"(", b")", b" ", b"  ", b"\"",
              b"\"a\"", b"\"a, b\"", b"\"\\\"\"", b"\\", b"\"\\a\"", b"1", b"-1", b"1.5", b"-0.125", b"1.", b"123456789012345",
              b"1234567890123456", b"123456789012.123", b"1234567890123.1", b"?0", b"?1", b"?", b":", b":YQ==:", b":YWI:",
              b":YQ=:", b"@1", b"@1.5", b"%\"", b"%\"a%c3%bc\"", b"%\"%fc\"", b"%\"%e2%82%ac%22\"", b"%", b"A", b"/", b"tok/en:x",
              b"\x80", b"'"]
ITEMS = [b"a", b"*", b"tok/en:x", b"\"\"", b"\"a, b\"", b"\"\\\"\\\\\"", b"1", b"-1", b"1.5", b"-0.125", b"123456789012345",
         b"123456789012.123", b"?0", b"?1", b":YQ==:", b":YWI:", b"::", b"@1", b"@-15", b"%\"a%c3%bc\"", b"%\"%f0%9f%98%80%25\""]
DATES = [b"Sun", b"Mon", b"Sunday", b"Monday", b"sat", b", ", b" ", b"06", b" 6", b"31", b"29", b"30", b"00", b"-", b"Nov",
         b"Feb", b"FEB", b"Jun", b"1994", b"2000", b"1900", b"2024", b"0000", b"9999", b"94", b"70", b"26", b"77", b"76",
         b"08:49:37", b"23:59:60", b"24:00:00", b"00:60:00", b"8:49:37", b" GMT", b" gmt", b" UTC", b" +0000", b""]
RANGES = [b"bytes=", b"bytes=", b"Bytes=", b"bytes", b"items=", b"0-", b"-5", b"-0", b"0-0", b"5-9", b"9-5", b"90-99", b"100-200",
          b"85-", b"1000-", b"-", b"7", b",", b",", b", ", b" ", b"99999999999999999999-", b"0-99999999999999999999",
          b"-99999999999999999999", b"250-260", b"300-301", b"440-", b"a"]
CONTENT_RANGES = [b"bytes ", b"bytes ", b"BYTES ", b"bytes", b"items ", b"0", b"5", b"9", b"10", b"-", b"-", b"/", b"/", b"*", b"0-9/10",
                  b"18446744073709551615", b"18446744073709551616", b" "]
TAGS = [b"\"a\"", b"W/\"a\"", b"\"b\"", b"w/\"a\"", b"\"\"", b"\"a,b\"", b"\"a\\\"", b"*", b",", b", ", b" ", b"a", b"\"", b"\"\xfc\"",
        b"\"a b\""]
CODINGS = [b"gzip", b"br", b"zstd", b"x-gzip", b"GZIP", b"identity", b"*", b"deflate", b";q=0", b";q=1", b";q=0.5", b" ; Q=0.001",
           b";q=1.001", b";q=0.0000", b";q=1.", b";q=.5", b";q=", b";x=1", b",", b", ", b",", b" ", b"\""]
NO_VARY = [b"key-order", b"params", b"params=(\"a\")", b"params=(\"a\" \"b\")", b"except=(\"a\")", b"except=(\"%61b\" \"a+b\")",
           b"params=(\"%c3%a9\" \"a\\\"b\")", b"key-order=?0", b"params=?0", b"params=1", b"except=()", b"x=1", b"params=(a)",
           b"params=(\"%ff\")", b"params;x", b"key-order=?1;y", b"params=()"]
QUERY = [b"a", b"b", b"ab", b"a+b", b"a%20b", b"%61", b"%c3%a9", b"\xc3\xa9", b"=", b"=", b"&", b"&", b"&", b"&&", b"1", b"2", b"%", b"%4",
         b"%ff", b"%ef%bf%bd", b"+", b"%2B", b"%26", b"a\"b", b"a%22b", b"c"]


class Cases:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def join(self, pieces, most):
        value = b"".join(self.random.choice(pieces) for _ in range(self.random.randint(0, most)))
        return self.spoil(value)

    def spoil(self, value):
        """Now and then a byte is changed, gone, or there twice."""
        if value and self.random.random() < 0.15:
            i = self.random.randrange(len(value))
            new = bytes([self.random.choice(b" \t\",;=()\\aA0-%*?:@./\xff\x7f~")])
            value = value[:i] + self.random.choice([b"", new, new + value[i:i + 1], value[i:i + 1] * 2]) + value[i + 1:]
        return value

    def lines(self, make):
        return [make() for _ in range(self.random.choice([1, 1, 1, 1, 2, 3]))]

    def structured(self, keys):
        """Members that are right more often than not, and pieces that seldom are."""
        if self.random.random() < 0.2:
            return self.join(STRUCTURED, 8)
        return self.spoil(b", ".join(self.member(keys) for _ in range(self.random.randint(0, 3))))

    def bare(self):
        return self.random.choice(STRUCTURED if self.random.random() < 0.1 else ITEMS)

    def member(self, keys):
        value = self.bare()
        if self.random.random() < 0.3:
            value = b"(" + b" ".join(self.bare() for _ in range(self.random.randint(0, 3))) + b")"
        value = self.random.choice(keys) + value
        return value + self.random.choice([b"", b"", b";p", b";p=1;q=\"x\"", b"; p=?0;p"])

    def control(self):
        one = lambda: self.random.choice(CONTROL) + self.random.choice(CONTROL_VALUES)
        return self.spoil(self.random.choice([b", ", b",", b" ,,"]).join(one() for _ in range(self.random.randint(0, 4))))

    def date(self):
        pick, d2 = self.random.choice, lambda most: b"%02d" % self.random.randint(0, most)
        clock = b":".join([d2(24), d2(60), d2(61)])
        month = pick([b"Jan", b"Feb", b"feb", b"Apr", b"Dec"])
        day = d2(32)
        if self.random.random() < 0.2:
            return self.join(DATES, 9)
        return self.spoil(pick([
            b"%s, %s %s %04d %s GMT" % (pick([b"Sun", b"tue"]), day, month, self.random.randint(0, 9999), clock),
            b"%s, %s-%s-%s %s GMT" % (pick([b"Sunday", b"Friday"]), day, month, d2(99), clock),
            b"%s %s %2d %s %04d" % (pick([b"Thu", b"Sat"]), month, self.random.randint(0, 32), clock,
                                    self.random.choice([1900, 2000, 2023, 2024])),
        ]))

    def range(self):
        if self.random.random() < 0.3:
            return self.join(RANGES, 6)

        def spec():
            first, size = self.random.randint(0, 2000), self.random.choice([0, 5, 50, 200])
            return self.random.choice([b"%d-%d" % (first, first + size)] * 4 + [b"%d-" % first, b"-%d" % size])
        return self.spoil(b"bytes=" + b",".join(spec() for _ in range(self.random.choice([1, 2, 2, 3, 4, 6, 16, 17]))))

    def query(self):
        return b"".join(self.random.choice(QUERY) for _ in range(self.random.randint(0, 8)))

    def query_like(self, query):
        """Another, which may well be equal."""
        if self.random.random() < 0.2:
            return self.query()
        pieces = query.split(b"&")
        for _ in range(self.random.randint(0, 3)):
            i = self.random.randrange(len(pieces))
            change = self.random.randrange(5)
            if change == 0:
                pieces.insert(i, b"")
            elif change == 1:
                pieces[i] = pieces[i].replace(b"a", b"%61").replace(b"+", b"%20")
            elif change == 2:
                pieces.append(pieces.pop(i))
            elif change == 3:
                pieces.insert(i, self.random.choice([b"a=9", b"b", b"c=3", b"%C3%A9=1"]))
            elif b"=" not in pieces[i] and pieces[i]:
                pieces[i] += b"="
        return b"&".join(pieces)

    # --- one of each kind: its arguments, and what should come out

    def make_list(self):
        lines = self.lines(lambda: self.structured([b""] * 9 + [b"a="]))
        return lines, reading.container(lines, False)

    def make_dictionary(self):
        lines = self.lines(lambda: self.structured([b"a=", b"b=", b"*c-_.9="] * 5 + [b"", b"A="]))
        return lines, reading.container(lines, True)

    def make_item(self):
        lines = [self.spoil(self.random.choice([self.bare(), self.member([b""]), self.join(STRUCTURED, 4)]))]
        return lines, reading.item(lines)

    def make_cache_control(self):
        lines = self.lines(self.control)
        return lines, reading.cache_control(lines)

    def make_targeted(self):
        lines = self.lines(self.control)
        return lines, reading.targeted(lines)

    def make_date(self):
        value = self.date()
        return [value], None if (t := reading.date(value)) is None else str(t)

    def make_range(self):
        length = self.random.choice([0, 1, 10, 100, 500, 1000, 100000, 2**63])
        lines = [self.range()] * self.random.choice([1] * 20 + [2])
        return [b"%d" % length, *lines], reading.range_(lines, length)

    def make_content_range(self):
        value = self.join(CONTENT_RANGES, 7)
        if self.random.random() < 0.5:
            first, last, length = (self.random.randint(0, 20) for _ in range(3))
            value = self.spoil(self.random.choice([b"bytes %d-%d/%d" % (first, last, length),
                                                   b"Bytes %d-%d/%d" % (first, first + last, first + last + length),
                                                   b"bytes %d-%d/*" % (first, last), b"bytes */%d" % length]))
        return [value], reading.content_range(value)

    def make_etag(self):
        tag = self.spoil(self.random.choice(TAGS))
        lines = self.lines(lambda: self.join(TAGS, 5))
        return [tag, *lines], reading.etag(tag, lines)

    def make_encoding(self):
        lines = self.lines(lambda: self.join(CODINGS, 8))
        return lines, reading.encoding(lines)

    def make_no_vary_search(self):
        lines = [self.spoil(b", ".join(self.random.choice(NO_VARY) for _ in range(self.random.randint(0, 3))))]
        a = self.query()
        b = self.query_like(a)
        says, equal, clean = reading.no_vary_search(a, b, lines)
        # Of what isn't UTF-8 the program may see less to be equal, but no more.
        if not clean:
            return [a, b, *lines], ("1", "0", "-") if equal else ("0", "-")
        return [a, b, *lines], f"{equal:d}" if says else None


KINDS = [name[len("make_"):] for name in dir(Cases) if name.startswith("make_")]


def compare(program, kind, count, seed):
    cases = Cases(f"{kind} {seed}")
    made = [getattr(cases, f"make_{kind}")() for _ in range(count)]
    asked = "".join(" ".join(a.hex() or "-" for a in [kind.encode(), *arguments]) + "\n" for arguments, _ in made)
    answer = subprocess.run([program], input=asked, stdout=subprocess.PIPE, text=True, timeout=100, check=True)
    got = answer.stdout.split("\n")[:-1]
    assert len(got) == len(made), f"{len(got)} answers to {len(made)} questions"
    faults = [(a, want, g) for (a, want), g in zip(made, got)
              if g not in (want if isinstance(want, tuple) else ("-" if want is None else want,))]
    read = sum(g != "-" for g in got)
    # A comparison of nothing with nothing would be a test that can't fail.
    good = not faults and read > count // 12
    print(f"{'ok' if good else 'not ok'} {kind}: {count} cases, of them {read} valid, {len(faults)} different")
    for arguments, want, g in faults[:5]:
        print(f"  {arguments}\n    here:    {want}\n    program: {g}")
    return good


def main():
    program, count, seed = (sys.argv[1:] + ["3000", "1"][len(sys.argv) - 2:])[:3]
    if seed == "time":
        seed = str(time.time_ns())
        print(f"seed {seed}")
    return all([compare(program, kind, int(count), seed) for kind in KINDS])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
