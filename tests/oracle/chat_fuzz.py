"""chat_fuzz.py BUILD_FOLDER [COUNT [SEED]]: random templates, rendered by jinja2 and by chat/.

The same text, or an error of both. What chat/ refuses on purpose although jinja2 renders it (docs/chat.md)
is counted, and must stay rare.
"""

import random
import re
import sys
import warnings

import chat_cases
import chat_templates

# Refusals on purpose: 64 bits, what has no text of its own, letters with two capitals, ...
ON_PURPOSE = ("64 bits", "may be printed", "is supported", "not supported", "one letter each", "must be text here", "here;", "here (", "sameas compares",
              "at most", "without underscores", "for ASCII here", "precision from 0", "forms must", "is required (%", "fields must be", "one item or one slice",
              "a generation block must not stand")
# What jinja2 prints of objects differs from run to run.
OBJECTS = re.compile(r"object at 0x|<generator|dict_(keys|values|items)\(|range\(\d|<(Macro|Namespace|LoopContext|class|function)|built-in method")
# What makes a value of a kind: <t>, <n>, <l> and <x> are values of the kinds text, number, list, any.
GRAMMAR = {
    "t": ["'a'", "'B c'", "''", "'é🙂x'", "'a,b'", "' s\\n'", "t", "messages[0].content", "messages[1]['role']", "<t> ~ <x>", "(<t> + <t>)", "<t>|trim", "<t>|upper", "<t>|lower", "<t>|title",
          "<t>|capitalize", "<t>.strip()", "<t>.lstrip(<t>)", "<t>.rstrip()", "<t>|replace(<t>, <t>)", "<t>.replace(<t>, <t>)", "<l>|join(<t>)", "<x>|string", "<x>|tojson", "<x>|tojson(indent=2)", "<t>[1:]",
          "<t>[:-1]", "<t>[::-1]", "<t>[(<n>)|int:]", "(<t> if <x> else <t>)", "<t>|indent(2, true)", "(<t> * 2)", "<t>.title()", "<t>|reverse", "'%s-%s'|format(<x>, <t>)", "<x>|default(<t>, true)", "<t>|trim(<t>)",
          "<t>.split()|join('|')", "<t>.splitlines()|join('/')", "<t>.removeprefix(<t>)", "words[0]", "('%s %s' % (<x>, <t>))", "'{}{}'.format(<x>, <t>)"],
    "n": ["0", "1", "-2", "3", "2.5", "n", "f", "(<n> + <n>)", "(<n> - <n>)", "<n> * <n>", "(<n> // 3)", "(<n> % 4)", "(<n> / 2)", "<t>|length", "<l>|length", "-<n>", "<x>|int", "<n>|float", "<n>|abs",
          "<n>|round(1)", "(<n> if <x> else <n>)", "<t>.find(<t>)", "<t>.count(<t>)", "d.b", "messages|length - 1", "[<n>, <n>]|max", "[<n>, <n>]|sum", "<t>|int(<n>)"],
    "l": ["[1, 2]", "words", "rows", "messages", "[]", "['b', 'A']", "[<x>, <x>]", "[<t>, <t>]", "(<l> + <l>)", "<l>|list", "<l>[1:]", "<l>[::-1]", "<l>|reverse|list", "<t>.split(<t>)", "<t>|list", "d|list",
          "d.items()|list", "d|dictsort", "d.values()|list", "[<n>, <n>]|sort", "words|sort", "rows|map(attribute='k')|list", "words|map('upper')|list", "<l>|select|list", "rows|selectattr('s', 'defined')|list",
          "messages|rejectattr('role', 'eq', <t>)|list", "words|unique|list", "<l>|reject('in', <l>)|list", "range(<n>|int)|list", "rows|sort(attribute='k', reverse=true)", "(<l> or <l>)", "deep.a.b"],
    "x": ["none", "true", "nothing", "d", "{'q': <x>, 'r': <x>}", "(<x>, <x>)", "<t>", "<t>", "<n>", "<l>", "<x> == <x>", "<n> < <n>", "<t> in <t>", "<x> not in <l>", "<x> and <x>", "<x> or <x>", "not <x>", "<l>|first",
          "<l>|last", "<l>[0]", "<x> is defined", "<x> is not none", "<x> is string", "<x> is mapping", "<n> is odd", "<x> is iterable", "<x> is sequence", "<x> is number", "d.get(<t>)", "d[<t>]", "messages[<n>]",
          "<x>.role", "<x>.k", "<x>['k']", "(<x> if <x>)", "<n> != <n>", "<x> is true", "<x>|default(<x>)", "<t> < <t>", "<t> is lower", "rows[0]|items|list", "<n> is divisibleby(2)", "<x> + <x>", "<t>.strip()", "<t> | length", "<l>|length"],
}
SPACE = ["", " ", "\n", "\n  ", "  ", "x", "x\n", "\n\n", "\u00a0"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, values):
        return self.random.choice(values)

    def expression(self, depth, kind="x"):
        forms = GRAMMAR[kind]
        while True:
            form = self.one(forms)
            if depth > 0 or not re.search("<[tnlx]>", form):
                return re.sub("<([tnlx])>", lambda part: self.operand(depth - 1, part[1]), form)

    def operand(self, depth, kind):
        """Mostly in brackets, where it needs them."""
        text = self.expression(depth, kind)
        return f"({text})" if re.search(r"[^\w']", text) and self.random.random() < 0.95 else text

    def tag(self, text):
        return "{%" + self.one(["", "-", "+"]) + f" {text} " + self.one(["", "-", "+"]) + "%}"

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.random.randrange(1, 4)))

    def statement(self, depth):
        kind = self.random.randrange(12) if depth else self.random.randrange(5)
        space = self.one(SPACE)
        if kind < 3:
            return space + "{{" + self.one(["", "-"]) + f" {self.expression(2)} " + self.one(["", "-"]) + "}}"
        if kind == 3:
            return space + "{#" + self.one(["", "-"]) + " c " + self.one(["", "-"]) + "#}" + self.one(SPACE)
        if kind == 4:
            return space + self.tag(f"set {self.one(['v', 'w', 'ns.a'])} = {self.expression(2)}") + self.one(SPACE)
        body = self.body(depth - 1)
        if kind in (5, 6):
            other = self.tag("else") + self.body(depth - 1) if self.random.random() < 0.5 else ""
            return space + self.tag(f"if {self.expression(2)}") + body + other + self.tag("endif")
        if kind in (7, 8):
            target = self.one(["v"] * 9 + ["k, v"])
            leave = self.tag("if loop.index > 1") + self.tag(self.one(["break", "continue"])) + self.tag("endif") if self.random.random() < 0.3 else ""
            other = self.tag("else") + self.body(0) if self.random.random() < 0.3 else ""
            condition = f" if {self.expression(1)}" if self.random.random() < 0.3 else ""
            loop = "{{ loop.index }}{{ v }}" if self.random.random() < 0.5 else ""
            return space + self.tag(f"for {target} in {self.expression(1, 'l')}{condition}") + loop + leave + body + other + self.tag("endfor")
        if kind == 9:
            return space + self.tag(self.one(["set v", "set v | upper", "filter upper", "filter trim", "generation"])) + body
        if kind == 10:
            call = self.one(["{{ m(1) }}", "{{ m(w=v) }}", "{{ m() }}", "{{ m(v) }}"])
            return space + self.tag(f"macro m(v, w={self.expression(1)})") + "{{ v }}{{ w }}" + body + self.tag("endmacro") + call
        return space + self.tag(f"with v = {self.expression(1)}") + body + self.tag("endwith")

    def template(self):
        return "{% set ns = namespace(a=1) %}" + self.body(2) + "{{ v }}{{ ns.a }}"


def closed(template):
    """Adds the ends of the blocks that statement() left open."""
    out = []
    opened = []
    for piece in re.split(r"(\{%.*?%\})", template, flags=re.S):
        tag = re.match(r"\{%[-+]? (set v|filter|generation)(?! =)", piece)
        if tag:
            opened.append({"set v": "endset"}.get(tag[1], "end" + tag[1]))
        out.append(piece)
        if opened and not tag and not piece.startswith("{%"):
            out.append("{% " + opened.pop() + " %}")
    return "".join(out) + "".join("{% " + end + " %}" for end in reversed(opened))


def main():
    warnings.simplefilter("ignore", SyntaxWarning)  # of Python, about a template that is compiled
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    maker = Maker(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    ours = chat_templates.Ours(sys.argv[1])
    texts = refused = on_purpose = unstable = wrong = 0
    for _ in range(count):
        template = closed(maker.template())
        reference = chat_templates.theirs(template, chat_cases.VARIABLES)
        if OBJECTS.search(reference.get("text", "")):
            unstable += 1
            continue
        mine = ours.render(template, chat_cases.VARIABLES)
        if chat_templates.agree(mine, reference):
            texts += "text" in mine
            refused += "error" in mine
        elif any(part in mine.get("error", "") for part in ON_PURPOSE):
            on_purpose += 1
        else:
            wrong += 1
            print(f"{template!r}\n  expected {reference}\n  found    {mine}")
    print(f"{texts} equal texts, {refused} errors of both, {on_purpose} refused on purpose, {unstable} skipped, {wrong} differ")
    sys.exit(wrong > 0 or texts < count // 8 or on_purpose > count // 20)


if __name__ == "__main__":
    main()
