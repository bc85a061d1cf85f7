"""Field values, read a second time, from the RFCs' text and by other means than the program's: regular
expressions, big integers, sets. Where the program has a choice (what to do about contradictions, how many
ranges are too many), the choice is written down here once more. None: not valid, or says nothing."""
import calendar
import datetime
import re
import time
import urllib.parse

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
QUOTED = rb'"(?:[^"\\]|\\.)*"'


def lines_valid(lines):
    """May these be the values of field lines?"""
    return all(not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", line) for line in lines)


def elements(value):
    """RFC 9110 section 5.6.1, with commas in quoted strings; a quote that isn't closed is a character."""
    found = re.findall(rb'(?:' + QUOTED + rb'|\\["\\]|[^,])+', value, re.S)
    return [e for e in (e.strip(b" \t") for e in found) if e]


# --- structured fields (RFC 9651 section 4.2)


class Bad(Exception):
    pass


class Structured:
    """Lines are joined by a comma and a newline. The newline is whitespace behind a comma and
    nothing anywhere else, so a member that is spread over lines is a fault."""

    def __init__(self, lines):
        lines = [line.strip(b" \t") for line in lines]
        self.s = b",\n".join(lines).decode("latin-1")

    def expect(self, pattern):
        m = re.compile(pattern, re.S).match(self.s)
        if not m:
            raise Bad(pattern)
        self.s = self.s[m.end():]
        return m

    def take(self, pattern):
        try:
            return self.expect(pattern)
        except Bad:
            return None

    def number(self):
        text = self.expect(r"-?[0-9]+(\.[0-9]*)?")[0]
        whole, _, fraction = text.lstrip("-").partition(".")
        if "." not in text:
            if len(whole) > 15:
                raise Bad
            return f"i{int(text)}"
        if len(whole) > 12 or not 1 <= len(fraction) <= 3:
            raise Bad
        thousandths = int(whole + fraction.ljust(3, "0"))
        return f"d{-thousandths if text[0] == '-' else thousandths}"

    def display(self):
        text = self.expect(r'%"((?:[ !#$&-~]|%[0-9a-f]{2})*)"')[1]
        data = urllib.parse.unquote_to_bytes(text)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            raise Bad
        return "%" + data.hex()

    def bytes(self):
        text = self.expect(r":([A-Za-z0-9+/]*={0,2}):")[1]
        letters = len(text.rstrip("="))
        if letters % 4 == 1 or ("=" in text and len(text) % 4):
            raise Bad
        return "b" + text.encode().hex()

    def bare(self):
        first = self.s[:1]
        if first == '"':
            text = self.expect(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')[1]
            return "s" + re.sub(r"\\(.)", r"\1", text).encode().hex()
        if first == ":":
            return self.bytes()
        if first == "?":
            return "?" + self.expect(r"\?([01])")[1]
        if first == "@":
            self.expect("@")
            number = self.number()
            if number[0] != "i":
                raise Bad
            return "@" + number[1:]
        if first == "%":
            return self.display()
        if re.match(r"[A-Za-z*]", first):
            return "t" + self.expect(r"[!#$%&'*+\-.^_`|~0-9A-Za-z:/]+")[0].encode().hex()
        return self.number()

    def key(self):
        return self.expect(r"[a-z*][a-z0-9_\-.*]*")[0]

    def parameters(self):
        out = ""
        while self.take(";"):
            self.expect(" *")
            key = self.key()
            out += f";{key}=" + (self.bare() if self.take("=") else "?1")
        return out

    def item(self):
        return self.bare() + self.parameters()

    def item_or_list(self):
        if not self.take(r"\("):
            return self.item()
        out = "("
        while True:
            self.expect(" *")
            if self.take(r"\)"):
                return out + ")" + self.parameters()
            out += self.item() + " "
            if self.s[:1] not in (" ", ")"):
                raise Bad

    def member(self, keyed):
        if not keyed:
            return "", self.item_or_list()
        key = self.key()
        return key, self.item_or_list() if self.take("=") else "?1" + self.parameters()

    def members(self, keyed):
        if not self.s:
            return []
        out = [self.member(keyed)]
        while self.expect(r"[ \t]*") and self.s:
            self.expect(r",[ \t\n]*")
            out.append(self.member(keyed))
        return out


def members(lines, keyed):
    """[(key, value)], or None."""
    if not lines or not lines_valid(lines):
        return None
    try:
        return Structured(lines).members(keyed)
    except Bad:
        return None


def container(lines, keyed):
    found = members(lines, keyed)
    return None if found is None else "".join(f",{k}={v}" for k, v in found)


def item(lines):
    if len(lines) != 1 or not lines_valid(lines):
        return None
    try:
        s = Structured(lines)
        found = s.item()
    except Bad:
        return None
    return None if s.s else found


# --- Cache-Control (RFC 9111 section 5.2)

FORBID = {"no-store": 0, "must-revalidate": 4, "proxy-revalidate": 5, "no-transform": 8, "only-if-cached": 9}
ALLOW = {"public": 3, "must-understand": 6, "immutable": 7}
FIELDS = {"no-cache": (1, 10), "private": (2, 11)}  # for all; for the listed
SECONDS = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error", "max-stale", "min-fresh"]
REQUEST = ["only-if-cached", "max-stale", "min-fresh"]
MAX_STALE_ANY = 12


def field_names(argument):
    names = elements(argument)
    return names if names and all(re.fullmatch(TOKEN, n) for n in names) else []


def control(flags, seconds, names):
    ms = [-1 if seconds.get(k) is None else seconds[k] * 1000 for k in SECONDS]
    listed = "".join(" " + b"".join(n + b"," for n in names[k]).decode() for k in ("no-cache", "private"))
    return " ".join(map(str, [flags, *ms])) + listed


def cache_control(lines):
    if not lines_valid(lines):
        return None
    flags, seconds, names = 0, {}, {"no-cache": [], "private": []}
    for element in (e for line in lines for e in elements(line)):
        raw, equals, argument = element.partition(b"=")
        name = raw.strip(b" \t").decode("latin-1")
        name = "".join(c.lower() if c.isascii() else c for c in name)
        right = raw == raw.strip(b" \t") and argument == argument.strip(b" \t")
        argument = argument.strip(b" \t")
        if re.fullmatch(QUOTED, argument, re.S):
            argument = argument[1:-1]
        if name in FORBID:
            flags |= 1 << FORBID[name]
        elif name in ALLOW and not equals:
            flags |= 1 << ALLOW[name]
        elif name in FIELDS:
            listed = field_names(argument) if right and equals else []
            flags |= 1 << FIELDS[name][bool(listed)]
            names[name] += listed
        elif name == "max-stale" and not equals:
            flags |= 1 << MAX_STALE_ANY
        elif name in SECONDS:
            valid = right and re.fullmatch(rb"[0-9]+", argument)
            value = min(int(argument), 1 << 31) if valid else 0
            seconds[name] = value if seconds.get(name, value) == value else 0
    return control(flags, seconds, names)


def targeted(lines):
    """RFC 9213 section 2.1, with the program's choice for types that are wrong."""
    found = members(lines, True)
    if not found:
        return None
    flags, seconds, names, broken = 0, {}, {"no-cache": [], "private": []}, False
    for name, value in dict(found).items():
        if value[0] != "(":
            value = value.partition(";")[0]
        if name in REQUEST:
            continue
        if name in FORBID:
            flags |= (value != "?0") << FORBID[name]
        elif name in ALLOW:
            flags |= (value == "?1") << ALLOW[name]
        elif name in FIELDS and value != "?0":
            names[name] = field_names(bytes.fromhex(value[1:])) if value[0] == "s" else []
            flags |= 1 << FIELDS[name][bool(names[name])]
        elif name in SECONDS:
            valid = re.fullmatch("i[0-9]+", value)
            seconds[name] = min(int(value[1:]), 1 << 31) if valid else 0
            broken |= not valid
    if broken and not flags & 0b111:
        return None
    return control(flags, seconds, names)


# --- dates (RFC 9110 section 5.6.7)

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
DAY = "(?:mon|tue|wed|thu|fri|sat|sun)"
LONG_DAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
MONTH = f"(?P<b>{'|'.join(MONTHS)})"
TIME = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)"
DATES = [
    rf"{DAY}, (?P<d>\d\d) {MONTH} (?P<y>\d{{4}}) {TIME} gmt",
    rf"{LONG_DAY}, (?P<d>\d\d)-{MONTH}-(?P<y>\d\d) {TIME} gmt",
    rf"{DAY} {MONTH} (?P<d>\d\d| \d) {TIME} (?P<y>\d{{4}})",
]


def seconds_of(year, month, day, h, m, s):
    """None: no such moment. 400 years are whole weeks, and datetime begins with the year 1."""
    if not 1 <= day <= calendar.monthrange(year % 400 + 2000, month)[1] or h > 23 or m > 59 or s > 60:
        return None
    days = datetime.date(year % 400 + 2000, month, day).toordinal()
    days += (year - year % 400 - 2000) // 400 * 146097 - datetime.date(1970, 1, 1).toordinal()
    return ((days * 24 + h) * 60 + m) * 60 + s


def date(value):
    text = value.decode("latin-1")
    for pattern in DATES:
        m = re.fullmatch(pattern, text, re.I | re.A)
        if not m:
            continue
        year, rest = int(m["y"]), (MONTHS.index(m["b"].lower()) + 1, *(int(m[k]) for k in "dhms"))
        if len(m["y"]) == 4:
            return seconds_of(year, *rest)
        # The last such year that isn't more than 50 years ahead.
        now = time.gmtime()
        last = now.tm_year + 50 - (now.tm_year + 50 - year) % 100
        late = (last - 50, *rest) > tuple(now)[:6]
        return seconds_of(last - 100 if late else last, *rest)
    return None


# --- ranges (RFC 9110 section 14)

MOST, GAP, OVERLAPPING, WORD = 16, 80, 2, 2**64 - 1


def range_(lines, length):
    if len(lines) != 1 or not lines_valid(lines):
        return None
    m = re.fullmatch(rb"bytes=(?![ \t])(.*)", lines[0].strip(b" \t"), re.I)
    specs = [s.strip(b" \t") for s in m[1].split(b",")] if m else []
    specs = [s for s in specs if s]
    if not specs:
        return None
    wanted = []
    for spec in specs:
        m = re.fullmatch(rb"([0-9]*)-([0-9]*)", spec)
        if not m or spec == b"-":
            return None
        first, last = (min(int(x), WORD) if x else None for x in m.groups())
        if first is None:
            if last:
                wanted.append((max(length - last, 0), length - 1))
            continue
        if last is not None and last < first:
            return None
        if first < length:
            wanted.append((first, length - 1 if last is None else min(last, length - 1)))
    if len(specs) > MOST:
        return None
    if not wanted:
        return "416"

    def apart(a, b):
        return max(a[0], b[0]) - min(a[1], b[1])

    overlapping = sum(any(i != j and apart(a, b) <= 0 for j, b in enumerate(wanted)) for i, a in enumerate(wanted))
    if length == 0 or overlapping > OVERLAPPING:
        return "whole"
    # Each with the first that it is linked to, directly or through others.
    groups = [{i} for i in range(len(wanted))]
    for i, a in enumerate(wanted):
        for j, b in enumerate(wanted[:i]):
            if apart(a, b) <= GAP:
                groups[i] |= groups[j]
    merged = True
    while merged:
        merged = False
        for i, g in enumerate(groups):
            for h in groups[:i]:
                if g & h:
                    h |= g
                    groups.pop(i)
                    merged = True
                    break
            if merged:
                break
    groups.sort(key=min)
    return "".join(f"{min(wanted[i][0] for i in g)}-{max(wanted[i][1] for i in g)}," for g in groups)


def content_range(value):
    m = re.fullmatch(rb"bytes (?:([0-9]+)-([0-9]+)|\*)/([0-9]+)", value, re.I)
    if not m:
        return None
    first, last, length = (int(x) if x else None for x in m.groups())
    if any(x is not None and x > WORD for x in (first, last, length)):
        return None
    if first is not None and (last < first or last >= length):
        return None
    return f"bytes {'*' if first is None else f'{first}-{last}'}/{length}"


# --- entity tags (RFC 9110 section 8.8.3)

ETAG = rb'(W/)?("[^\x00-\x20"\x7f]*")'


def etag(tag, lines):
    m = re.fullmatch(ETAG, tag)
    if not m or not lines_valid(lines):
        return None
    weakly = strongly = False
    for line in (line.strip(b" \t") for line in lines):
        if line == b"*":
            weakly = strongly = True
        # As far as it is a list of tags.
        while found := re.match(rb"[ \t,]*" + ETAG + rb"[ \t]*(?=,|$)", line):
            same = found[2] == m[2]
            weakly |= same
            strongly |= same and not found[1] and not m[1]
            line = line[found.end():]
    return f"{weakly:d} {strongly:d}"


# --- codings (RFC 9110 section 12.5.3)


def encoding(lines):
    if not lines or not lines_valid(lines):
        return None
    weights = {}
    for element in (e for line in lines for e in elements(line)):
        m = re.fullmatch(rb"(" + TOKEN + rb")(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?", element, re.I)
        if m:
            name = m[1].decode().lower()
            name = "gzip" if name == "x-gzip" else name
            weights.setdefault(name, set()).add(float(m[2] or 1) > 0)
    out = []
    for name in ("br", "gzip", "zstd"):
        if False not in weights[name] if name in weights else "*" in weights and False not in weights["*"]:
            out.append(name)
    # Identity is taken unless it, or all that isn't named, is refused and nothing says the contrary.
    if True not in weights.get("identity", weights.get("*", {True})):
        out.append("identity;q=0")
    return ", ".join(out) or "identity"


# --- No-Vary-Search (the draft's sections 4 and 5)


def form_decode(data):
    return urllib.parse.unquote_to_bytes(data.replace(b"+", b" "))


def variance(lines):
    """(no-vary params, vary params, vary on key order), with None for the wildcard."""
    default = ([], None, True)
    found = members(lines, True)
    if found is None:
        return default
    value = {k: v if v[0] == "(" else v.partition(";")[0] for k, v in found}

    def strings(inner):
        inner = inner[1:inner.rindex(")")].split()
        if any(i[0] != "s" for i in inner):
            return None
        return [form_decode(bytes.fromhex(i.partition(";")[0][1:])).decode("utf-8", "replace") for i in inner]

    key_order, params = value.get("key-order", "?0"), value.get("params", "?0")
    if key_order not in ("?0", "?1") or (params[0] != "(" and params not in ("?0", "?1")):
        return default
    no_vary, vary = (None, []) if params == "?1" else (strings(params) if params[0] == "(" else [], None)
    if params[0] == "(" and no_vary is None:
        return default
    if "except" in value:
        if params != "?1" or value["except"][0] != "(":
            return default
        vary = strings(value["except"])
        if vary is None:
            return default
    return no_vary, vary, key_order == "?0"


def no_vary_search(a, b, lines):
    """(says anything, equal, all of it is UTF-8)"""
    no_vary, vary, ordered = variance(lines)
    if no_vary == [] and ordered:
        return False, a == b, True
    clean = all("\ufffd" not in n for n in (no_vary or []) + (vary or []))
    sides = []
    for query in (a, b):
        pairs = [piece.partition(b"=")[::2] for piece in query.split(b"&") if piece]
        pairs = [tuple(form_decode(x).decode("utf-8", "replace") for x in pair) for pair in pairs]
        clean &= all("\ufffd" not in x for pair in pairs for x in pair)
        pairs = [p for p in pairs if (p[0] not in no_vary if no_vary is not None else p[0] in vary)]
        sides.append(pairs if ordered else sorted(pairs, key=lambda p: p[0]))
    return True, sides[0] == sides[1], clean
