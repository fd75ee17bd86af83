"""One bar per comparison, with its interval, as a hand-written SVG."""

import html
import math

WIDTH = 860
LEFT = 250  # labels
RIGHT = 150  # numbers
TOP = 70
ROW = 34
BAR = 16
BOTTOM = 62
INK = "#1f2328"
MUTED = "#59636e"
GRID = "#d9dee3"
FILL = "#3b7dd8"
WHISKER = "#0b2545"


def tick_step(largest):
    """A step of 1, 2 or 5 times a power of ten that gives 4 to 9 ticks."""
    raw = largest / 6
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)


def text(x, y, words, anchor="start", size=13, color=INK):
    """One line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{color}">{html.escape(words)}</text>'
    )


def line(x1, y1, x2, y2, color, width=1.0, dash=""):
    """One straight line."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{color}" stroke-width="{width}"{dashed}/>'
    )


def axis(scale, largest, bottom):
    """Grid, tick labels, the line of equal speed, and the axis' title."""
    parts = []
    step = tick_step(largest)
    for index in range(math.floor(largest / step + 1e-9) + 1):
        x = LEFT + index * step * scale
        parts.append(line(x, TOP - 8, x, bottom, GRID))
        parts.append(text(x, bottom + 18, f"{index * step:g}", "middle", 12, MUTED))
    x = LEFT + scale
    parts.append(line(x, TOP - 8, x, bottom, INK, 1.5, "4 3"))
    parts.append(text(x + 4, TOP - 14, "equal speed", "start", 11, MUTED))
    middle = LEFT + largest * scale / 2
    title = "peer step time / fmengine step time (longer: fmengine is faster)"
    parts.append(text(middle, bottom + 42, title, "middle", 12, MUTED))
    return parts


def bar(row, bar_of, scale):
    """Label, bar, interval and number of one comparison."""
    center = TOP + row * ROW + ROW / 2
    low, ratio, high = (LEFT + bar_of[word] * scale for word in ("low", "ratio", "high"))
    number = f"{bar_of['ratio']:.2f}  [{bar_of['low']:.2f}, {bar_of['high']:.2f}]"
    return [
        text(LEFT - 10, center + 4, bar_of["label"], "end"),
        f'<rect x="{LEFT}" y="{center - BAR / 2:.1f}" width="{ratio - LEFT:.1f}" '
        f'height="{BAR}" fill="{FILL}"/>',
        line(low, center, high, center, WHISKER, 2),
        line(low, center - 5, low, center + 5, WHISKER, 2),
        line(high, center - 5, high, center + 5, WHISKER, 2),
        text(high + 10, center + 4, number, "start", 12),
    ]


def draw(title, bars):
    """SVG of bars {"label", "ratio", "low", "high"}; the axis begins at 0."""
    bottom = TOP + ROW * len(bars)
    height = bottom + BOTTOM
    largest = max([1.2, *(bar_of["high"] for bar_of in bars)]) * 1.02
    scale = (WIDTH - LEFT - RIGHT) / largest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        text(20, 28, title, "start", 16),
        *axis(scale, largest, bottom),
    ]
    for row, bar_of in enumerate(bars):
        parts += bar(row, bar_of, scale)
    return "\n".join([*parts, "</svg>"]) + "\n"
