"""Parses P4 text that the compiler has printed after its mid-end, into tuples for declarations, statements and expressions.

Supports the subset of P4 that occurs in the compiled programs of this repository. All else raises an UnsupportedError.
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
# Binary operators in ascending order of precedence. `>>` is two tokens, because type arguments may end in `>>`, too.
LEVELS = [["||"], ["&&"], ["==", "!="], ["<", ">", "<=", ">="], ["|"], ["^"], ["&"], ["<<", ">>"],
          ["+", "-", "++", "|+|", "|-|"], ["*"]]


class UnsupportedError(Exception):
    """A P4 construct or a situation that the parser or the executor does not support."""


class UndefinedValueError(UnsupportedError):
    """A read of a field that was not written before."""


class P4Parser:
    def __init__(self, text):
        # The tokens, and whether white space precedes each.
        self.tokens, self.spaced = [], []
        spaced = False
        for token in TOKEN.finditer(text):
            if token.lastgroup == "space":
                spaced = True
                continue
            self.tokens.append(token[0])
            self.spaced.append(spaced)
            spaced = False
        self.tokens.append("")  # the end
        self.spaced.append(True)
        self.position = 0

    # Tokens -----------------------------------------------------------------------------------

    @property
    def next(self):
        return self.tokens[self.position]

    def next_token(self):
        self.position += 1
        return self.tokens[self.position - 1]

    def accept(self, *tokens):
        """Consumes these tokens if they are next, and returns whether they were."""
        if self.tokens[self.position : self.position + len(tokens)] != list(tokens):
            return False
        self.position += len(tokens)
        return True

    def expect(self, token):
        if self.next_token() != token:
            raise UnsupportedError(f"expected {token} near: {self.context()}")

    def context(self):
        """Returns the tokens around the current position, for messages."""
        return " ".join(self.tokens[max(0, self.position - 8) : self.position + 8])

    def each(self, end, read, separator=None):
        """Parses items with `read` up to the token `end`, and returns them."""
        items = []
        while not self.accept(end):
            items.append(read())
            if separator and not self.accept(separator):
                self.expect(end)
                break
        return items

    # Types and annotations --------------------------------------------------------------------

    def annotations(self):
        """Consumes annotations, and returns the argument of @name; None if there is none."""
        name = None
        while self.next == "@":
            self.next_token()
            kind = self.next_token()
            if self.accept("("):
                arguments = self.each(")", self.next_token)
                if kind == "name":
                    name = arguments[0].strip('"')
        return name

    def type(self):
        name = self.next_token()
        arguments = []
        if self.accept("<"):
            if name == "bit":
                width = int(self.next_token())
                self.expect(">")
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
        if ">>" in signs and self.tokens[self.position : self.position + 2] == [">", ">"] and not self.spaced[self.position + 1]:
            self.position += 2
            return ">>"
        if self.next in signs and not (self.next == ">" and self.tokens[self.position + 1] == ">"):
            return self.next_token()
        return None

    def prefix(self):
        if self.accept("!"):
            return "prefix!", self.prefix()
        if self.next == "(":
            # A cast, a struct literal with its type, or an expression in parentheses.
            start = self.position
            self.next_token()
            if re.match(r"[a-z]", self.next) and (self.next == "bit" or self.tokens[self.position + 1 : self.position + 3] in
                                                  ([")", "{"],)):
                kind = self.type()
                self.expect(")")
                if self.accept("{"):
                    return "struct", kind, self.each("}", self.field, ",")
                return "cast", kind, self.prefix()
            self.position = start + 1
            inner = self.expression()
            self.expect(")")
            return self.postfix(inner)
        return self.postfix(self.atom())

    def field(self):
        name = self.next_token()
        self.expect("=")
        return name, self.expression()

    def atom(self):
        token = self.next_token()
        if token == "default":
            return ("any",)
        if re.fullmatch(r"\d+w.*", token):
            width, value = token.split("w")
            return "number", int(value, 0), int(width)
        if token[:1].isdigit():
            return "number", int(token, 0), None
        if not re.match(r"[A-Za-z_$]", token):
            raise UnsupportedError(f"unsupported expression near: {self.context()}")
        return "name", token

    def postfix(self, inner):
        while True:
            if self.accept("."):
                inner = ("member", inner, self.next_token())
            elif self.accept("["):
                high = self.expression()
                if self.accept(":"):
                    inner = ("slice", inner, high[1], self.expression()[1])
                    self.expect("]")
                else:
                    raise UnsupportedError("unsupported index")
            elif self.next == "<" and not self.spaced[self.position]:
                self.next_token()
                kinds = self.each(">", self.type, ",")
                self.expect("(")
                inner = ("call", inner, self.each(")", self.expression, ","), kinds)
            elif self.accept("("):
                inner = ("call", inner, self.each(")", self.expression, ","), [])
            else:
                return inner

    # Statements -------------------------------------------------------------------------------

    def block(self):
        self.expect("{")
        return "block", self.each("}", self.statement)

    def statement(self):
        self.annotations()
        if self.next == "{":
            return self.block()
        if self.accept(";"):
            return "block", []
        if self.accept("if", "("):
            condition = self.expression()
            self.expect(")")
            body = self.statement()
            return "if", condition, body, self.statement() if self.accept("else") else ("block", [])
        if self.accept("switch", "("):
            subject = self.expression()
            self.expect(")")
            self.expect("{")
            return "switch", subject, self.each("}", self.case)
        if self.next in ("return", "exit", "for", "while"):
            raise UnsupportedError(f"unsupported statement {self.next}")
        if self.next == "bit":
            kind, name = self.type(), self.next_token()
            self.expect(";")
            return "variable", name, kind
        left = self.expression()
        if self.accept("="):
            right = self.expression()
            self.expect(";")
            return "assign", left, right
        self.expect(";")
        return "do", left

    def case(self):
        label = self.next_token()
        self.expect(":")
        return label, self.block() if self.next == "{" else None

    # Declarations -----------------------------------------------------------------------------

    def parameters(self):
        self.expect("(")
        return self.each(")", self.parameter, ",")

    def parameter(self):
        control_plane_name = self.annotations()
        direction = self.next_token() if self.next in ("in", "out", "inout") else ""
        kind, name = self.type(), self.next_token()
        return name, kind, direction, control_plane_name or name

    def declaration(self):
        """Returns (kind, name, control-plane name, content). The content depends on the kind."""
        control_plane_name = self.annotations()
        start = self.next
        if self.accept("typedef"):
            kind, name = self.type(), self.next_token()
            self.expect(";")
            return "typedef", name, name, kind
        if start in ("struct", "header"):
            self.next_token()
            name = self.next_token()
            self.expect("{")
            return start, name, name, self.each("}", self.member)
        if start in ("parser", "control"):
            self.next_token()
            name, parameters = self.next_token(), self.parameters()
            self.expect("{")
            parts = self.each("}", self.part)
            return start, name, name, (parameters, parts)
        if self.accept("action"):
            name, parameters = self.next_token(), self.parameters()
            return "action", name, control_plane_name or name, (parameters, self.block())
        if self.accept("table"):
            name = self.next_token()
            self.expect("{")
            return "table", name, control_plane_name or name, dict(self.each("}", self.property))
        kind = self.type()
        arguments = None
        if self.accept("("):
            arguments = self.each(")", self.expression, ",")
        name = self.next_token()
        body = None
        if self.accept("="):
            if arguments is None:
                raise UnsupportedError(f"unsupported initial value of {name}")
            self.expect("{")
            self.expect("void")
            self.expect("apply")
            body = self.parameters(), self.block()
            self.expect("}")
        self.expect(";")
        if arguments is None:
            return "variable", name, name, kind
        return "instance", name, control_plane_name or name, (kind, arguments, body)

    def member(self):
        self.annotations()
        kind, name = self.type(), self.next_token()
        self.expect(";")
        return name, kind

    def part(self):
        if self.accept("apply"):
            return "apply", None, None, self.block()
        if self.accept("state"):
            name = self.next_token()
            self.expect("{")
            body = []
            while not self.accept("transition"):
                body.append(self.statement())
            if self.accept("select"):
                self.expect("(")
                subjects = self.each(")", self.expression, ",")
                self.expect("{")
                choices = self.each("}", self.choice)
            else:
                subjects, choices = [], [([("any",)], self.next_token())]
                self.expect(";")
            self.expect("}")
            return "state", name, name, (body, subjects, choices)
        return self.declaration()

    def choice(self):
        keys = self.each(")", self.key_set, ",") if self.accept("(") else [self.key_set()]
        self.expect(":")
        state = self.next_token()
        self.expect(";")
        return keys, state

    def key_set(self):
        value = self.expression()
        return ("mask", value, self.expression()) if self.accept("&&&") else value

    def property(self):
        self.annotations()
        self.accept("const")
        name = self.next_token()
        self.expect("=")
        if name == "key":
            self.expect("{")
            return name, self.each("}", self.key)
        if name == "actions":
            self.expect("{")
            return name, self.each("}", self.action_name)
        if name == "entries":
            self.expect("{")
            return name, self.each("}", self.entry)
        value = self.expression()
        self.expect(";")
        return name, value

    def key(self):
        value = self.expression()
        self.expect(":")
        kind = self.next_token()
        name = self.annotations()
        self.expect(";")
        return value, kind, name

    def action_name(self):
        self.annotations()
        name = self.next_token()
        if self.accept("("):
            self.expect(")")
        self.expect(";")
        return name

    def entry(self):
        keys = self.each(")", self.key_set, ",") if self.accept("(") else [self.key_set()]
        self.expect(":")
        action = self.expression()
        self.expect(";")
        return keys, action


@functools.lru_cache(maxsize=8)
def declarations(text):
    """Returns the declarations of a text. The result is cached; callers must not modify it."""
    parser = P4Parser(text)
    result = []
    while parser.next:
        result.append(parser.declaration())
    return result


# Declarations of the architecture, and the package instances; the executor implements both itself.
ANNOTATIONS = r"(?:@\w+(?:\([^)]*\))?\s*)*"
ARCHITECTURE_DECLARATIONS = re.compile(ANNOTATIONS + r"(?:(?:extern|enum|error|match_kind|package|Pipeline|Switch)\b"
                      r"|(?:header|struct) (?:\w*intrinsic_metadata\w*|pktgen_\w+|ptp_metadata_t)\b"
                      r"|(?:parser|control) \w+T\W|typedef \S+ [A-Z]\w*_t\W)")
IGNORED_ANNOTATIONS = re.compile(r"@(?:noWarn|controller_header|hidden|optional|padding)(?:\([^)]*\))?\s*")


def strip_architecture(text):
    """Removes the declarations of the architecture and ignored annotations from a compiler's output."""
    kept, start, depth = [], 0, 0
    text = IGNORED_ANNOTATIONS.sub("", text)
    for token in TOKEN.finditer(text):
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(token[0], 0)
        if depth == 0 and token[0] in ("}", ";"):
            declaration = text[start : token.end()].strip()
            start = token.end()
            if declaration != ";" and not ARCHITECTURE_DECLARATIONS.match(declaration):
                kept.append(declaration)
    return re.sub(r"\n\s*\n", "\n", "\n".join(kept)) + "\n"
