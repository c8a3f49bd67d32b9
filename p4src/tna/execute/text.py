"""Reads P4 as the compiler prints it after its passes: declarations, statements and expressions as tuples.

Only what such text of our programs has. Anything else is an Unknown, which names it: nothing is skipped or guessed.
"""

import functools
import re

TOKEN = re.compile(r'''
    (?P<space>\s+)
  | (?P<string>"[^"]*")
  | (?P<number>\d+w0x[0-9a-f]+|\d+w\d+|0x[0-9a-f]+|\d+)
  | (?P<name>[A-Za-z_$][\w$]*)
  | (?P<sign>\|\+\||\|-\||&&&|\+\+|<<|<=|>=|==|!=|&&|\|\||.)
''', re.VERBOSE)
# From weak to strong. A shift to the right is two signs, since type arguments end in > too.
LEVELS = [["||"], ["&&"], ["==", "!="], ["<", ">", "<=", ">="], ["|"], ["^"], ["&"], ["<<", ">>"],
          ["+", "-", "++", "|+|", "|-|"], ["*"]]


class Unknown(Exception):
    """What this reader, or the executor, does not know."""


class Undefined(Unknown):
    """A field that nothing has written."""


class Text:
    def __init__(self, text):
        self.tokens, self.spaced = [], []
        spaced = False
        for found in TOKEN.finditer(text):
            if found.lastgroup == "space":
                spaced = True
                continue
            self.tokens.append(found[0])
            self.spaced.append(spaced)
            spaced = False
        self.tokens.append("")
        self.spaced.append(True)
        self.at = 0

    # Tokens -----------------------------------------------------------------------------------

    @property
    def next(self):
        return self.tokens[self.at]

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def has(self, *tokens):
        """Takes these if they come next."""
        if self.tokens[self.at : self.at + len(tokens)] != list(tokens):
            return False
        self.at += len(tokens)
        return True

    def need(self, token):
        if self.take() != token:
            raise Unknown(f"{token} expected, but: {' '.join(self.tokens[max(0, self.at - 8) : self.at + 8])}")

    def each(self, end, read, separator=None):
        found = []
        while not self.has(end):
            found.append(read())
            if separator and not self.has(separator):
                self.need(end)
                break
        return found

    # Types and annotations --------------------------------------------------------------------

    def annotations(self):
        """The argument of @name, if there is one."""
        name = None
        while self.next == "@":
            self.take()
            kind = self.take()
            if self.has("("):
                arguments = self.each(")", self.take)
                if kind == "name":
                    name = arguments[0].strip('"')
        return name

    def type(self):
        name = self.take()
        arguments = []
        if self.has("<"):
            if name == "bit":
                width = int(self.take())
                self.need(">")
                return name, width
            arguments = self.each(">", self.type, ",")
        return name, arguments

    # Expressions ------------------------------------------------------------------------------

    def expression(self, level=0):
        if level == len(LEVELS):
            return self.prefix()
        left = self.expression(level + 1)
        while (sign := self.binary(LEVELS[level])) is not None:
            left = (sign, left, self.expression(level + 1))
        return left

    def binary(self, signs):
        if ">>" in signs and self.tokens[self.at : self.at + 2] == [">", ">"] and not self.spaced[self.at + 1]:
            self.at += 2
            return ">>"
        if self.next in signs and not (self.next == ">" and self.tokens[self.at + 1] == ">"):
            return self.take()
        return None

    def prefix(self):
        if self.has("!"):
            return "prefix!", self.prefix()
        if self.next == "(":
            # A cast, or an expression in brackets.
            before = self.at
            self.take()
            if re.match(r"[a-z]", self.next) and (self.next == "bit" or self.tokens[self.at + 1 : self.at + 3] in
                                                  ([")", "{"],)):
                kind = self.type()
                self.need(")")
                if self.has("{"):
                    return "struct", kind, self.each("}", self.field, ",")
                return "cast", kind, self.prefix()
            self.at = before + 1
            inner = self.expression()
            self.need(")")
            return self.postfix(inner)
        return self.postfix(self.atom())

    def field(self):
        name = self.take()
        self.need("=")
        return name, self.expression()

    def atom(self):
        token = self.take()
        if token == "default":
            return ("any",)
        if re.fullmatch(r"\d+w.*", token):
            width, value = token.split("w")
            return "number", int(value, 0), int(width)
        if token[:1].isdigit():
            return "number", int(token, 0), None
        if not re.match(r"[A-Za-z_$]", token):
            raise Unknown(f"no expression: {' '.join(self.tokens[max(0, self.at - 8) : self.at + 8])}")
        return "name", token

    def postfix(self, inner):
        while True:
            if self.has("."):
                inner = ("member", inner, self.take())
            elif self.has("["):
                high = self.expression()
                if self.has(":"):
                    inner = ("slice", inner, high[1], self.expression()[1])
                    self.need("]")
                else:
                    raise Unknown("an index")
            elif self.next == "<" and not self.spaced[self.at]:
                self.take()
                kinds = self.each(">", self.type, ",")
                self.need("(")
                inner = ("call", inner, self.each(")", self.expression, ","), kinds)
            elif self.has("("):
                inner = ("call", inner, self.each(")", self.expression, ","), [])
            else:
                return inner

    # Statements -------------------------------------------------------------------------------

    def block(self):
        self.need("{")
        return "block", self.each("}", self.statement)

    def statement(self):
        self.annotations()
        if self.next == "{":
            return self.block()
        if self.has(";"):
            return "block", []
        if self.has("if", "("):
            condition = self.expression()
            self.need(")")
            yes = self.statement()
            return "if", condition, yes, self.statement() if self.has("else") else ("block", [])
        if self.has("switch", "("):
            subject = self.expression()
            self.need(")")
            self.need("{")
            return "switch", subject, self.each("}", self.case)
        if self.next in ("return", "exit", "for", "while"):
            raise Unknown(f"the statement {self.next}")
        if self.next == "bit":
            kind, name = self.type(), self.take()
            self.need(";")
            return "variable", name, kind
        left = self.expression()
        if self.has("="):
            right = self.expression()
            self.need(";")
            return "assign", left, right
        self.need(";")
        return "do", left

    def case(self):
        label = self.take()
        self.need(":")
        return label, self.block() if self.next == "{" else None

    # Declarations -----------------------------------------------------------------------------

    def parameters(self):
        self.need("(")
        return self.each(")", self.parameter, ",")

    def parameter(self):
        shown = self.annotations()
        direction = self.take() if self.next in ("in", "out", "inout") else ""
        kind, name = self.type(), self.take()
        return name, kind, direction, shown or name

    def declaration(self):
        """(kind, name, the name for the controller, what it is made of)."""
        shown = self.annotations()
        start = self.next
        if self.has("typedef"):
            kind, name = self.type(), self.take()
            self.need(";")
            return "typedef", name, name, kind
        if start in ("struct", "header"):
            self.take()
            name = self.take()
            self.need("{")
            return start, name, name, self.each("}", self.member)
        if start in ("parser", "control"):
            self.take()
            name, parameters = self.take(), self.parameters()
            self.need("{")
            parts = self.each("}", self.part)
            return start, name, name, (parameters, parts)
        if self.has("action"):
            name, parameters = self.take(), self.parameters()
            return "action", name, shown or name, (parameters, self.block())
        if self.has("table"):
            name = self.take()
            self.need("{")
            return "table", name, shown or name, dict(self.each("}", self.property))
        kind = self.type()
        arguments = None
        if self.has("("):
            arguments = self.each(")", self.expression, ",")
        name = self.take()
        body = None
        if self.has("="):
            if arguments is None:
                raise Unknown(f"{name} has an initial value")
            self.need("{")
            self.need("void")
            self.need("apply")
            body = self.parameters(), self.block()
            self.need("}")
        self.need(";")
        if arguments is None:
            return "variable", name, name, kind
        return "instance", name, shown or name, (kind, arguments, body)

    def member(self):
        self.annotations()
        kind, name = self.type(), self.take()
        self.need(";")
        return name, kind

    def part(self):
        if self.has("apply"):
            return "apply", None, None, self.block()
        if self.has("state"):
            name = self.take()
            self.need("{")
            body = []
            while not self.has("transition"):
                body.append(self.statement())
            if self.has("select"):
                self.need("(")
                subjects = self.each(")", self.expression, ",")
                self.need("{")
                choices = self.each("}", self.choice)
            else:
                subjects, choices = [], [([("any",)], self.take())]
                self.need(";")
            self.need("}")
            return "state", name, name, (body, subjects, choices)
        return self.declaration()

    def choice(self):
        keys = self.each(")", self.key_set, ",") if self.has("(") else [self.key_set()]
        self.need(":")
        state = self.take()
        self.need(";")
        return keys, state

    def key_set(self):
        value = self.expression()
        return ("mask", value, self.expression()) if self.has("&&&") else value

    def property(self):
        self.annotations()
        self.has("const")
        name = self.take()
        self.need("=")
        if name == "key":
            self.need("{")
            return name, self.each("}", self.key)
        if name == "actions":
            self.need("{")
            return name, self.each("}", self.action_name)
        if name == "entries":
            self.need("{")
            return name, self.each("}", self.entry)
        value = self.expression()
        self.need(";")
        return name, value

    def key(self):
        value = self.expression()
        self.need(":")
        kind = self.take()
        name = self.annotations()
        self.need(";")
        return value, kind, name

    def action_name(self):
        self.annotations()
        name = self.take()
        if self.has("("):
            self.need(")")
        self.need(";")
        return name

    def entry(self):
        keys = self.each(")", self.key_set, ",") if self.has("(") else [self.key_set()]
        self.need(":")
        action = self.expression()
        self.need(";")
        return keys, action


@functools.lru_cache(maxsize=8)
def declarations(text):
    """What a text declares. It is the caller's to read, not to change."""
    reader = Text(text)
    found = []
    while reader.next:
        found.append(reader.declaration())
    return found


# What the architecture declares, and what joins the parts: the executor has its own of both.
ANNOTATIONS = r"(?:@\w+(?:\([^)]*\))?\s*)*"
NOT_OURS = re.compile(ANNOTATIONS + r"(?:(?:extern|enum|error|match_kind|package|Pipeline|Switch)\b"
                      r"|(?:header|struct) (?:\w*intrinsic_metadata\w*|pktgen_\w+|ptp_metadata_t)\b"
                      r"|(?:parser|control) \w+T\W|typedef \S+ [A-Z]\w*_t\W)")
WORDS = re.compile(r"@(?:noWarn|controller_header|hidden|optional|padding)(?:\([^)]*\))?\s*")


def reduced(text):
    """Of a compiler's output the declarations that are our own, without what is for other readers."""
    kept, start, depth = [], 0, 0
    text = WORDS.sub("", text)
    for found in TOKEN.finditer(text):
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(found[0], 0)
        if depth == 0 and found[0] in ("}", ";"):
            piece = text[start : found.end()].strip()
            start = found.end()
            if piece != ";" and not NOT_OURS.match(piece):
                kept.append(piece)
    return re.sub(r"\n\s*\n", "\n", "\n".join(kept)) + "\n"
