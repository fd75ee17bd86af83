"""Small templates and what jinja2 makes of them, for tests/text/jinja/jinja_cases_test.cc.

    chat_cases.py FILE            compares FILE with what transformers' environment renders now
    chat_cases.py FILE --write    writes it

A line: a template, then "text" or "error": true. The variables are VARIABLES, in the first line.
"""

import json
import pathlib
import sys

import chat_templates

VARIABLES = {
    "messages": [{"role": "user", "content": " Hi é🙂\n"}, {"role": "assistant", "content": "yes", "n": 2}],
    "tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "<s>",
    "d": {"b": 1, "A": [1, 2.5, None], "items": "x"}, "t": "naïve 🙂 text", "n": 7, "f": 2.5, "empty": [],
    "deep": {"a": {"b": [{"c": "found"}]}}, "words": ["b", "A", "c", "a"], "rows": [{"k": 2, "s": "x"}, {"k": 1, "s": "Y"}, {"k": 2}],
}

WHITESPACE = [
    "a\n", "a\n\n", "", "\n", "a\r\nb\rc", "  {% if true %}\n  x\n  {% endif %}\n  y", "{% if true %}\n\nx{% endif %}",
    "a  {%- if true -%}  b  {%- endif -%}  c", "a {{- 1 -}} b", "a {{ 1 }}\n b", "  {%+ if true %}x{% endif %}", "x {%+ if true +%}\n y{% endif %}",
    "a\n  {# note #}\nb", "a {#- note -#} b", "{# a #}{# b #}", "a{# {{ x }} {% y %} #}b", "{##}", "{#-#} x", "  {# a +#}\n b", "a\n  {{ 1 }}\n",
    "{% raw %}{{ x }} {% y %}{% endraw %}", "a {%- raw -%} {{ x }} {%- endraw -%} b", "{% raw %}\nx\n  {% endraw %}\ny", "x\n  {% raw %} a {% endraw %}",
    "{%if true%}x{%endif%}", "{% if true %}x{% endif %}\n{% if true %}y{% endif %}\n", "\u00a0{% if true %}x{% endif %}", "a\u2003 {{- 1 }}", "{{ '}}' }}", "{{ '{%' }}",
    "{% set x = {'a': {'b': 1}} %}{{ x }}", "{{{'a':1}['a']}}", "{ { } } {", "{{ 'a\n b' }}", "x{{+1}}", "x  {{-1}}", "{% if true -%}\n\n  x\n{%- endif %}", "\t{% if true %}\t{% endif %}z",
    "{% if true %} {% if true %}\n a {% endif %}\n{% endif %}", "{{ 1", "{% if", "{# x", "{{ 'x }}", "{{ ) }}", "{{ (1] }}", "{% raw %}x", "{{ $ }}", "{% endif %}", "{% nothing %}", "{% if true %}",
]
VALUES = [
    "1", "-1", "1_000", "0x1F", "0b11", "0o17", "1.5", "1e3", "1.5e-7", "1e22", "1e16", "1e15", "123456789012345.0", "0.1 + 0.2", "1e-5", "0.0001", "-0.0", "1/3", "2**0.5", "100.0",
    "true", "True", "none", "None", "false", "'a' 'b'", r"'\n\t\\\'\x41\u00e9\101'", r"'\q'", '"it\'s"', "[1, 'a', none, true, 1.0]", "(1,)", "()", "(1, 2)", "[]", "{}", "{'a': 1, 'b': [2]}", "{'a': 1, 'a': 2}",
    "['it\\'s']", "['a\"b\\'']", "['\\n\\t\\x00é🙂\\u200b']", "[nothing]", "{'k': 'it\\'s', 'n': none}", "d", "messages", "[1,]", "{'a': 1,}", "1 if false", "1 if true else 2", "1 if false else 2 if false else 3",
]
OPERATORS = [
    "1 + 2 * 3", "(1 + 2) * 3", "7 // 2", "-7 // 2", "7 % 3", "-7 % 3", "7 / 2", "6 / 2", "2 ** 10", "2 ** -1", "-2 ** 2", "2 ** 3 ** 2", "7.5 // 2", "-7.5 % 2", "1 / 0", "1 // 0", "true + true", "'a' + 'b'", "'a' + 1", "1 + none",
    "[1] + [2]", "[1] + (2,)", "'ab' * 2", "3 * 'ab'", "[1] * 2", "'a' * -1", "'a' ~ 1 ~ none ~ nothing", "1 ~ 2 + 3", "1 + 2 ~ 3", "nothing + 1", "'x' ~ [1, 'a']", "-'a'", "+1", "--1", "not true", "not not 1", "not nothing",
    "1 < 2 < 3", "1 < 3 < 2", "1 == 1.0", "true == 1", "'1' == 1", "none == false", "'a' < 'b'", "'Z' < 'a'", "[1, 2] < [1, 3]", "[1] < [1, 0]", "1 < 'a'", "none < 1", "[1] == (1,)", "{'a': 1} == {'a': 1.0}", "nothing == nothing2", "nothing == none", "1 != 2", "'é' > 'z'",
    "1 in [1, 2]", "'a' in 'cat'", "'' in 'x'", "1 in 'x'", "'a' not in ['b']", "'b' in d", "'z' in d", "1 in nothing", "1 in 2", "[] in d", "nothing in [1]", "2 in (1, 2)", "1 and 2", "0 and 2", "0 or 'x'", "'' or none", "1 or x.y.z", "not 1 == 2", "1 == 1 and 2 > 1 or false",
    "'%s-%d' % ('a', 3)", "'%s' % 'x'", "'%5.2f|%-4s|%04d' % (2.345, 'ab', 7)", "'%s' % [1]", "'%d' % 'a'", "'%s %s' % ('a',)", "'%s' % ('a', 'b')", "'%%' % ()", "'%(b)s' % d", "'%x %X' % (255, 255)", "'%r' % 'a'", "9223372036854775807", "1.0 // 0.0", "5 % -3", "5.5 % -3", "1e308 * 10", "2 ** 62", "n ** 2", "10 // 3.0",
]
ACCESS = [
    "messages[0].role", "messages[0]['role']", "messages[-1].n", "messages[5]", "messages[5].x", "messages.0.role", "d.b", "d.items()|list", "d['items']", "d.keys()|list", "d.values()|list", "d.get('b')", "d.get('z')", "d.get('z', 3)", "d['z']", "d['z'] is defined",
    "d.z is defined", "d.z.y", "nothing.x", "nothing['x']", "none.x", "none['x'] is defined", "1 .x is defined", "t[0]", "t[2]", "t[6]", "t[-1]", "t[99]", "t[1:4]", "t[::-1]", "t[-4:]", "t[:-5]", "t[::2]", "t[5:1]", "t[5:1:-1]", "t[none:3]", "t['a':]", "messages[1:]|length", "messages[:-1]|length", "messages[::-1][0].role",
    "words[1:3]", "words[::0]", "(1, 2, 3)[1:]", "words[true]", "words[1.0] is defined", "words['x'] is defined", "t.upper()", "t.nothing is defined", "deep.a.b[0].c", "deep['a'].b.0['c']", "words.append('x')", "d.update({})", "words.append is defined", "d.pop is defined", "d.__class__ is defined", "t.__len__ is defined", "words.sort()",
    "words.0", "words.9 is defined", "'abc'[1]", "'abc'.upper()[0]", "{'a': {'b': 2}}.a.b", "[[1, 2], [3]][0][1]", "range(3)[1]", "range(5)[1:3]|list", "d.keys()[0] is defined", "words[nothing] is defined", "d[nothing] is defined", "d[1] is defined", "d[[]] is defined",
]
METHODS = [
    "' a b '.strip()", "'xxaxx'.strip('x')", "' a '.lstrip()", "' a '.rstrip()", "'xay'.lstrip('xy')", "'\\u00a0a\\u3000'.strip() ~ '|'", "'aXb'.lower()", "'aéß'.lower()", "'aé'.upper()", "'hello wORLD it\\'s'.title()", "'hELLO'.capitalize()", "'a,b,,c'.split(',')", "' a  b '.split()", "'a b c'.split(' ', 1)", "' a  b c '.split(none, 1)", "'abc'.split('')", "''.split()", "''.split(',')",
    "'a.b.c'.rsplit('.', 1)", "'a\\nb\\r\\nc'.splitlines()", "'a\\n'.splitlines()", "''.splitlines()", "'aXbX'.replace('X', 'y')", "'abc'.replace('', '-')", "'aé'.replace('', '-')", "'abc'.startswith('ab')", "'abc'.startswith(('x', 'a'))", "'abc'.endswith('bc')", "'abc'.startswith(1)", "'abab'.count('ab')", "'éab'.find('b')", "'ab'.find('z')", "'ab'.index('z')", "'-'.join(['a', 'b'])", "'-'.join([1])", "'-'.join('abc')",
    "'{} {}'.format(1, 'a')", "'{0} {1} {0}'.format(1, 2)", "'{x}'.format(x=3)", "'{{}}'.format()", "'{}'.format()", "'a1'.isdigit()", "'12'.isdigit()", "''.isdigit()", "'ab'.isalpha()", "'Ab'.isupper()", "'AB1'.isupper()", "'ab'.islower()", "' \\n'.isspace()", "'ab'.removeprefix('a')", "'ab'.removesuffix('b')", "'ab'.strip(1)", "'ab'.nope()", "'a'.upper(1)", "'aab'.rfind('a')", "d.keys(1)", "d.get()", "'abc'.split(sep='b')", "' a '.strip(none)",
]
FILTERS = [
    "' a '|trim", "1|trim", "none|trim", "'xax'|trim('x')", "'aB'|upper", "'aB'|lower", "'hello world-foo (bar) it\\'s'|title", "'hELLO'|capitalize", "1|upper", "'abc'|length", "t|length", "d|length", "words|count", "1|length", "none|length", "nothing|length", "words|map('upper')|length", "nothing|default('x')", "none|default('x')", "none|default('x', true)", "''|default('x', boolean=true)", "0|d('x', true)", "nothing|default", "nothing.x|default(1)",
    "words|first", "words|last", "''|first", "[]|first", "[]|last is defined", "'abc'|last", "d|first", "d|last", "nothing|first is defined", "words|map('upper')|last", "words|map('upper')|first", "words|join", "words|join(', ')", "[1, none, 'a']|join('-')", "rows|join(',', attribute='k')", "'abc'|join('.')", "none|join", "nothing|join('x')", "words|reverse|list", "'abé'|reverse", "d|reverse|list", "words|sort", "words|sort(reverse=true)", "words|sort(case_sensitive=true)", "rows|sort(attribute='k')|map(attribute='s')|list",
    "[3, 1, 2]|sort", "[1, 'a']|sort", "words|unique|list", "['a', 'A', 'b']|unique|list", "['a', 'A']|unique(true)|list", "[1, 1.0, true]|unique|list", "d|dictsort", "d|dictsort(true)", "{'b': 1, 'a': 2}|dictsort(by='value')", "{'b': 1, 'a': 2}|dictsort(reverse=true)", "d|items|list", "nothing|items|list", "1|items|list", "words|list", "'ab'|list", "d|list", "1|list", "none|list", "[1, 2, 3]|sum", "rows|sum(attribute='k')", "['a']|sum", "[[1], [2]]|sum(start=[])", "[3, 1]|max", "[3, 1]|min", "words|max", "[]|max is defined", "words|min(case_sensitive=true)", "rows|max(attribute='k')",
    "'42'|int", "'42.9'|int", "'x'|int", "'x'|int(7)", "' 12 '|int", "3.9|int", "-3.9|int", "none|int", "true|int", "'0x1f'|int(base=16)", "'1f'|int(0, 16)", "nothing|int", "[]|int", "'1e3'|int", "'-5'|int", "''|int", "'2.5'|float", "'x'|float", "'x'|float(1.5)", "3|float", "none|float", "'1e400'|float", "'nan'|float", "'-inf'|float", "2.5|round", "3.5|round", "2.675|round(2)", "2.61|round(1, 'floor')", "2.61|round(1, 'ceil')", "5|round", "5|round(1, 'ceil')", "-2.5|round", "-3|abs", "-3.5|abs", "'a'|abs",
    "1|string + '1'", "none|string", "d|string", "nothing|string ~ '|'", "'<a>'|safe", "'a'|replace('a', 'b')", "'aaa'|replace('a', 'b', 2)", "1|replace(1, 2)", "'%s!'|format('x')", "'%s %s'|format('x', 1)", "'%(a)s'|format(a=1)", "'a\\nb\\n\\nc'|indent", "'a\\nb\\n\\nc'|indent(2, true)", "'a\\nb\\n\\nc'|indent(2, blank=true)", "'a\\nb'|indent('> ')", "'a\\n'|indent ~ '|'", "''|indent ~ '|'", "1|indent",
    "d|tojson", "'é\\n\"<>&\\x7f\\x01'|tojson", "'é🙂'|tojson(ensure_ascii=true)", "d|tojson(indent=2)", "[]|tojson(indent=2)", "{}|tojson(indent=2)", "[[], {}]|tojson(indent=1)", "d|tojson(separators=(',', ':'))", "{'b': 1, 'a': 2}|tojson(sort_keys=true)", "nothing|tojson", "(1, 2)|tojson", "1e3|tojson", "1e400|tojson", "[1.0, -0.0, 1e-7]|tojson", "range(2)|tojson", "words|map('upper')|tojson", "words|map('upper')|list|tojson", "none|tojson", "true|tojson", "d.items()|tojson", "d|tojson(indent='--')", "[1, 2]|tojson(indent=0)",
    "words|map('upper')|join", "words|map('replace', 'a', 'z')|join", "rows|map(attribute='k')|list", "rows|map(attribute='s')|list", "rows|map(attribute='s', default='none')|list", "deep.a.b|map(attribute='c')|list", "[deep]|map(attribute='a.b.0.c')|list", "nothing|map('upper')|list", "none|map('upper')|list", "1|map('upper')|list", "words|map('nope')|list", "words|map|list", "words|select('equalto', 'a')|list", "words|reject('in', ['a', 'b'])|list", "[0, 1, '', 'a']|select|list", "[0, 1]|reject|list", "[1, 2, 3]|select('odd')|list", "[1, 2, 3]|select('>', 1)|list",
    "rows|selectattr('s')|list", "rows|selectattr('k', 'equalto', 2)|list|length", "rows|rejectattr('k', '==', 2)|list", "rows|selectattr('s', 'defined')|map(attribute='k')|list", "rows|selectattr('s', 'undefined')|list", "messages|selectattr('role', 'eq', 'user')|list|length", "messages|rejectattr('role', 'in', ['user'])|map(attribute='content')|first", "rows|selectattr|list", "rows|selectattr('k', 'nope')|list", "(words|map('upper'))[0] is defined", "words|nope", "words|join|upper|lower", "-1|abs", "(-1)|abs", "'a'|upper ~ 'b'|upper", "'ab'|upper()[0]",
    "'a'|default", "x|default(y)|default('z')", "'abc'|upper is string", "1 + '2'|int", "words|length > 3", "not words|length", "'a' if words|length else 'b'", "words|join(d=', ')", "words|join(sep=', ')", "words|first(1)", "'a b'|replace(' ', '_')|upper",
]
TESTS = [
    "x is defined", "n is defined", "x is undefined", "n is not defined", "none is none", "0 is none", "x is none", "n is number", "true is number", "'1' is number", "1.0 is float", "1 is float", "1 is integer", "true is integer", "true is boolean", "1 is boolean", "true is true", "1 is true", "false is false", "'a' is string", "1 is string", "d is mapping", "words is mapping", "words is sequence", "t is sequence", "d is sequence", "x is sequence", "1 is sequence", "d.items() is sequence",
    "words is iterable", "1 is iterable", "x is iterable", "words|map('upper') is iterable", "words|map('upper') is sequence", "n is odd", "n is even", "'a' is odd", "n is divisibleby 7", "n is divisibleby(2)", "n is eq 7", "n is ne(7)", "n is gt 3", "n is lt 3", "n is ge 7", "n is le 6", "n is equalto 7", "1 is in [1, 2]", "'a' is lower", "'a1' is lower", "'1' is lower", "'A' is upper", "raise_exception is callable", "1 is callable", "none is sameas none", "true is sameas true", "1 is sameas true", "n is nope", "n is defined and n is odd", "x is defined or n is odd", "not x is defined", "x is not defined and true",
    "n is number is odd", "'a' is string and 'b' is string", "d.b is defined", "messages[0].n is defined", "messages[0]['n'] is not none", "1 is escaped", "(n is odd) ~ ''", "range(2) is sequence",
]
STATEMENTS = [
    "{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}{{ ns.l.last }}{{ ns.l.length }}{{ ns.l.previtem }}",
    "{% set ns = namespace(a=0) %}{% for i in [1, 2, 3] if ns.a < 2 %}{{ i }}{% set ns.a = ns.a + 1 %}{% endfor %}", "{% set ns = namespace(a=0) %}{% for i in [1, 2, 3] if ns.a < 2 %}{{ i }}{{ loop.last }}{% set ns.a = ns.a + 1 %}{% endfor %}",
    "{% set ns = namespace(a=0) %}{% for i in [1, 2, 3] if ns.a < 2 %}{{ i }}{{ loop.length }}{{ loop.nextitem }}{% set ns.a = ns.a + 1 %}{% endfor %}",
    "{% if n > 3 %}a{% elif n > 1 %}b{% else %}c{% endif %}", "{% if x %}a{% elif n %}b{% else %}c{% endif %}", "{% if x %}a{% endif %}b", "{% for w in words %}{{ w }},{% endfor %}", "{% for w in [] %}a{% else %}b{% endfor %}", "{% for w in words %}{% continue %}{% else %}b{% endfor %}", "{% for w in words %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for w in words %}{{ loop.previtem }}<{{ w }}>{{ loop.nextitem }} {% endfor %}", "{% for w in words %}{{ loop.cycle('x', 'y') }}{% endfor %}", "{% for w in words if w != 'A' %}{{ w }}{{ loop.index }}{{ loop.last }}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'aé🙂' %}{{ c }}.{% endfor %}", "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }},{% endfor %}", "{% for a, b in [[1]] %}x{% endfor %}", "{% for (a, (b, c)) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(2, 10, 3) %}{{ i }},{% endfor %}", "{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}", "{% for i in 5 %}{% endfor %}", "{% for i in none %}{% endfor %}", "{% for i in x %}a{% else %}e{% endfor %}", "{% for i in 1, 2 %}{{ i }}{% endfor %}", "{% for i in [1, 2] %}{% for j in [1, 2] %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }}|{% endfor %}", "{% break %}", "{% for i in [1] %}{% if true %}{% break %}{% endif %}x{% endfor %}y",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}", "{% set ns = namespace(a=1) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}", "{% set ns = namespace() %}{% set ns.x = [1] %}{{ ns.x }}{{ ns['x'] }}", "{% set d.x = 1 %}", "{% set nothing.x = 1 %}", "{% set ns = namespace(_a=1) %}", "{% set ns = namespace() %}{% set ns._a = 1 %}", "{% if true %}{% set y = 2 %}{% endif %}{{ y }}", "{% if false %}{% set y = 2 %}{% endif %}{{ y is defined }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = 1 %}", "{% set a = 1, 2 %}{{ a }}", "{% set (a, b) = 'xy' %}{{ a }}{{ b }}",
    "{% set x %}a{{ n }}{% endset %}{{ x }}{{ x is string }}", "{% set x | upper %}a{{ n }}{% endset %}{{ x }}", "{% set x|replace('a', 'b')|upper %}a c{% endset %}{{ x }}", "{% set x %}{% set y = 1 %}{% endset %}{{ y is defined }}", "{% filter upper %}a{{ t }}{% endfilter %}", "{% filter trim|upper %} a {% endfilter %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% with %}x{% endwith %}", "{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}", "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=1, a=0) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}{{ n }}{{ later }}{% endmacro %}{% set later = 3 %}{{ m() }}", "{% macro m(k) %}{% if k %}{{ k }}{{ m(k - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro m() %} a {% endmacro %}{{ m()|trim ~ '|' }}{{ m() is string }}", "{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}x{{ n }}{% endcall %}", "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a + b }}{% endcall %}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(4) }}", "{% macro m() %}{% set z = 1 %}{% endmacro %}{{ m() }}{{ z is defined }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}", "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{{ raise_exception('no') }}", "{% if false %}{{ raise_exception('no') }}{% endif %}ok", "{{ dict(a=1, b=2) }}", "{{ dict({'a': 1}, b=2) }}", "{{ range(3) | list }}", "{{ range(100001) }}", "{{ namespace is defined }}", "{{ undefined_function() }}", "{{ n() }}", "{{ strftime_now('%Y') == '2024' }}", "{{ strftime_now('%d %b %Y %%') }}", "{% generation %}a{{ n }}{% endgeneration %}b", "{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", "{% generation %}{% set q = 1 %}{% endgeneration %}{{ q is defined }}", "{% include 'x' %}", "{% extends 'x' %}", "{% set true = 1 %}", "{% for loop in [1] %}{% endfor %}", "{% if n is defined and n == 7 and messages[0].role == 'user' %}y{% endif %}",
    "{% set content %}\n  {{ t }}\n{% endset %}[{{ content }}]", "{% for m in messages %}\n{% if m.role == 'user' %}\nU: {{ m.content | trim }}\n{% else %}\nA: {{ m.content }}\n{% endif %}\n{% endfor %}", "{%- for m in messages -%}\n  {{- m.role }}\n{%- endfor -%}\n", "{% set ns = namespace(found=false) %}{% for m in messages %}{% if not ns.found and m.role == 'assistant' %}{% set ns.found = true %}{{ loop.index0 }}{% endif %}{% endfor %}", "{% for m in messages[::-1] %}{% set i = (messages|length - 1) - loop.index0 %}{{ i }}{% endfor %}", "{% set m = messages|map(attribute='role')|list %}{{ m[-1] if m else 'none' }}", "{% set it = words|map('upper') %}{{ it|list }}{{ it|list }}", "{% set it = words|map('upper') %}{{ 'yes' if it else 'no' }}", "{% set it = []|select %}{{ 'yes' if it else 'no' }}", "{{ 1 }}", "{% set a = [1] %}{% set b = a + [2] %}{{ a }}{{ b }}",
    "{{ 1, 2 }}", "{{ }}", "{% set x = %}", "{{ 1 2 }}", "{{ a.1b }}", "{{ words[1] }}", "{% if %}x{% endif %}", "{% for %}{% endfor %}", "{% for x words %}{% endfor %}", "{{ f(a=1, 2) }}", "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% set x = 1 %}}", "{{ 'a' if }}", "{{ not }}", "{{ x is }}", "{{ x| }}", "{{ . }}", "{{ x. }}", "{% else %}", "{% elif %}",
]


def all_templates():
    yield from WHITESPACE
    for group in (VALUES, OPERATORS, ACCESS, METHODS, FILTERS, TESTS):
        for expression in group:
            yield "{{ " + expression + " }}"
    yield from STATEMENTS


def lines():
    yield json.dumps({"variables": VARIABLES, "now": chat_templates.NOW}, ensure_ascii=False)
    for template in dict.fromkeys(all_templates()):
        answer = chat_templates.theirs(template, VARIABLES)
        answer = {"error": True} if "error" in answer else {"text": answer["text"], "generation": answer["generation"]}
        yield json.dumps({"template": template, **answer}, ensure_ascii=False)


def main():
    file = pathlib.Path(sys.argv[1])
    text = "".join(line + "\n" for line in lines())
    if sys.argv[2:] == ["--write"]:
        file.write_text(text)
    elif file.read_text() != text:
        sys.exit(f"{file} is not what jinja2 renders; run with --write and look at the difference")
    print(f"{text.count(chr(10)) - 1} templates")


if __name__ == "__main__":
    main()
