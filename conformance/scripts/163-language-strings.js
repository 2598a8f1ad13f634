// Strings, Unicode, regular expressions.
//
// area: language
// covers: string functions; Unicode; normalize; regular expressions; named groups; lookbehind
// covers: sticky and unicode flags; matchAll; replaceAll
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  say('string functions', [
    'abc'.padStart(5, '-'), 'x'.repeat(3), ' t '.trim(), 'a-b-c'.split('-', 2), 'abc'.at(-1),
    'abcabc'.lastIndexOf('b'), 'aXbX'.replaceAll('X', 'y'), 'abc'.includes('bc', 1),
    'ABC'.toLowerCase(), 'ß'.toUpperCase(), 'İ'.toLowerCase().length, 'a'.localeCompare('b'),
    'abc'.substring(2, 0), 'abc'.substr(-2, 1), 'a\u0000b'.length,
  ]);
  say('Unicode', [
    '𝄞'.length, [...'𝄞a'].length, '𝄞'.codePointAt(0), String.fromCodePoint(0x1f600), '\u{1F600}',
    'é'.normalize('NFD').length, encodeURIComponent('ü 𝄞&'), escape('ü'), unescape('%u2603'),
    decodeURIComponent('%C3%BC'), encodeURI('http://x/ü?a=b&c'),
  ]);
  const attempt = (f) => { try { return f(); } catch (e) { return e.name; } };
  say(
    'named groups',
    [
      attempt(() => '2024-05-06'.match(/(?<y>\d{4})-(?<m>\d\d)/).groups.y),
      attempt(() => '2024-05'.replace(/(?<y>\d+)-(?<m>\d+)/, '$<m>/$<y>')),
    ]
  );
  say('lookbehind', ['price: $42'.match(/(?<=\$)\d+/)[0], 'a1b2'.replace(/(?<!a)\d/g, '#')]);
  say('matchAll', [[...'a1b22'.matchAll(/[a-z](\d+)/g)].map((m) => [m[1], m.index])]);
  const sticky = /a/y; sticky.lastIndex = 1;
  say('sticky and unicode flags', [
    sticky.test('ba'), /^.$/u.test('𝄞'), /^.$/.test('𝄞'), /\u{1d11e}/u.test('𝄞'),
    /a.b/s.test('a\nb'), /ü/i.test('Ü'), attempt(() => /\p{L}+/u.exec('日本 x')[0]), /x/gi.flags,
  ]);
  say('regular expressions', [
    'aBc'.replace(/b/i, (m, at) => m + at), 'a,b;c'.split(/[,;]/), 'abab'.search(/ba/),
    /(a+)+b/.test('aaaaaaaaaaaaaaaaaab'), 'x'.replace('x', '$$&'), 'tel: 1'.match(/no/),
    /(?:(a)|b)*/.exec('ab')[1] === undefined,
  ]);
  say('raw', String.raw`\n${1}`);
  say('compare', [['b', 'a', 'C', 'ä'].sort(), '10' < '9', 'a' < 'B', [10, 9, 1].sort()]);
}
