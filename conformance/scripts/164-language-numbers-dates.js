// Numbers, BigInt, Math, Date.
//
// area: language
// covers: number formatting; parseInt and parseFloat; Math; BigInt; Date; Date parsing
const sorted = (_, v) => (v && v.constructor === Object ? Object.fromEntries(Object.entries(v).sort()) : v);
const say = (key, value) => console.log('RESULT ' + key + ' ' + JSON.stringify(value, sorted));
export default function () {
  say('number formatting', [
    (0.1 + 0.2).toString(), (1234.5678).toFixed(2), (1e21).toString(), (255).toString(16),
    (0.000001234).toExponential(2), (123.456).toPrecision(4), (1.005).toFixed(2), (-1.5).toFixed(0),
    5e-324, 1 / 3, 123456789012345680000, Number.MAX_SAFE_INTEGER, (25).toString(36),
    (0.5).toString(2),
  ]);
  say('parseInt and parseFloat', [
    parseInt('12px'), parseInt('0x1f'), parseInt('z', 36), parseFloat('3.14abc'), Number(''),
    Number('0b11'), Number(' 12 '), Number('1,2'), +[], +{}, Number(null), Number(undefined),
  ]);
  say('Math', [
    Math.round(-0.5), Math.round(2.5), Math.trunc(-4.7), Math.sign(-3), Math.hypot(3, 4),
    Math.cbrt(27), Math.log2(8), Math.fround(5.5), Math.clz32(1), Math.max(), Math.atan2(1, 1),
    5 % -3, -5 % 3, 7 >>> 1, -1 >>> 0, 1 << 31,
  ]);
  say('BigInt', [
    String(2n ** 64n), String(BigInt('9007199254740993') + 1n), typeof 1n, 5n / 2n === 2n, 1n < 2,
    String(BigInt.asUintN(8, 257n)), 0n ? 't' : 'f',
  ]);
  const d = new Date(Date.UTC(2024, 1, 29, 12, 34, 56, 789));
  say('Date', [
    d.toISOString(), d.getTime(), d.toJSON(), d.getUTCDay(), new Date(2024, 0, 31).getMonth(),
    new Date('2024-02-30T00:00:00Z').getTime(), typeof Date.now(), new Date(NaN).getTime(),
    d.getTimezoneOffset(), String(new Date(0)), new Date(0).toUTCString(),
  ]);
  say('Date parsing', [
    '2024-05-06', '2024-05-06T07:08:09Z', '2024-05-06T07:08:09.123+02:00',
    'Mon, 06 May 2024 07:08:09 GMT', 'May 6, 2024 07:08:09 UTC', 'not a date',
  ].map((t) => Date.parse(t)));
  say('setters', (() => {
    const x = new Date(0);
    x.setUTCMonth(13);
    x.setUTCHours(25);
    return x.toISOString();
  })());
}
