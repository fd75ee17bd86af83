"""Texts on which tokenizers differ: code, prose, many scripts, spaces, broken UTF-8, tokens inside."""
import glob
import random
import sysconfig

# Ranges of scripts, from which words are drawn.
SCRIPTS = {
    "latin": [(0x61, 0x7A)], "latin_accents": [(0x61, 0x7A), (0xC0, 0x17F)],
    "greek": [(0x391, 0x3C9)], "cyrillic": [(0x410, 0x44F)], "chinese": [(0x4E00, 0x9FA5)],
    "japanese": [(0x3041, 0x30FF), (0x4E00, 0x4FFF)], "hangul": [(0xAC00, 0xD7A3), (0x1100, 0x11FF)],
    "arabic": [(0x621, 0x652)], "hebrew": [(0x5D0, 0x5EA), (0x5B0, 0x5C2)],
    "hindi": [(0x904, 0x94D), (0x966, 0x96F)], "thai": [(0xE01, 0xE4E)],
    "combining": [(0x61, 0x7A), (0x300, 0x345)], "emoji": [(0x1F300, 0x1F6FF), (0x1F1E6, 0x1F1FF)],
    "digits": [(0x30, 0x39), (0x660, 0x669), (0x2460, 0x2470), (0xBC, 0xBE)],
    "signs": [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E), (0x2010, 0x2044)],
    "forms": [(0xFB00, 0xFB06), (0xFF01, 0xFF5E), (0x2070, 0x209C), (0x1D400, 0x1D4FF)],
}
SPACES = [" ", "  ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085",
          " " * 7, "\t\n ", "\u200d", "\u200b", "\ufeff", "\u180e", "\u2581", " \u2581 "]
ENDINGS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'\u017f", "'Re", "\u2019s"]


# Ray and what it brings: the tokenizers that are trained are those of an environment without it.
LEFT_OUT = {"ray", "attrs", "attr", "certifi", "charset_normalizer", "jsonschema", "jsonschema_specifications",
            "referencing", "requests", "rpds", "rpds_py", "urllib3"}


def sources(limit=40_000_000):
    """Python and text files of the oracle's own packages: code and English."""
    root = sysconfig.get_paths()["purelib"]
    paths = sorted(glob.glob(root + "/t*/**/*.py", recursive=True))
    paths += sorted(glob.glob(root + "/*/METADATA")) + sorted(glob.glob(root + "/**/*.md", recursive=True))
    paths = [path for path in paths if path[len(root) + 1:].split("/")[0].split("-")[0] not in LEFT_OUT]
    random.Random(1).shuffle(paths)
    taken, size = [], 0
    for path in paths:
        with open(path, "rb") as file:
            text = file.read(200_000).decode("utf-8", "replace")
        taken.append(text)
        size += len(text)
        if size > limit:
            break
    return taken


def word(rng, script):
    return "".join(chr(rng.randint(*rng.choice(SCRIPTS[script]))) for _ in range(rng.randint(1, 9)))


def sentence(rng, specials):
    scripts = rng.sample(list(SCRIPTS), 2)
    parts = []
    for _ in range(rng.randint(1, 60)):
        kind = rng.random()
        if kind < 0.72:
            text = word(rng, rng.choice(scripts))
            parts.append(text.capitalize() if kind < 0.1 else text.upper() if kind < 0.15 else text)
            parts.append(" " if rng.random() < 0.7 else rng.choice(SPACES))
        elif kind < 0.82:
            parts.append(rng.choice(ENDINGS) + rng.choice(["", " "]))
        elif kind < 0.9:
            parts.append(rng.choice(SPACES))
        elif kind < 0.95 and specials:
            parts.append(rng.choice(["", " ", "  "]) + rng.choice(specials) + rng.choice(["", " ", "\n", "x"]))
        else:
            parts.append(chr(rng.choice([rng.randrange(0x20, 0xD800), rng.randrange(0xE000, 0x10FFFF)])))
    return "".join(parts)


def broken(rng, text):
    """Bytes that are no UTF-8 any more."""
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 6)):
        if data:
            at = rng.randrange(len(data))
            data[at:at + rng.randint(0, 2)] = bytes(rng.randrange(256) for _ in range(rng.randint(0, 2)))
    return bytes(data)


class Texts:
    def __init__(self, seed, specials=()):
        self.rng = random.Random(seed)
        self.specials = list(specials)
        self.sources = sources()

    def some(self, size):
        """About `size` bytes of texts."""
        rng, made, total = self.rng, [], 0
        while total < size:
            kind = rng.random()
            if kind < 0.6:
                source = rng.choice(self.sources)
                begin = rng.randrange(max(1, len(source) - 100))
                data = source[begin:begin + rng.randint(1, 6000)].encode()
            elif kind < 0.93:
                data = sentence(rng, self.specials).encode()
            elif kind < 0.96:
                data = (rng.choice([" ", "\n", "a", "\u4e2d", "=", "\u2581", "\U0001f600", "1"])
                        * rng.randint(1, 400)).encode()
            else:
                data = broken(rng, sentence(rng, self.specials))
            made.append(data)
            total += len(data)
        return made
