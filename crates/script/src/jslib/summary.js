// k6-summary: the end-of-test summary as text or as JUnit XML.

const TIME_UNITS = { s: [1e-3, 's'], ms: [1, 'ms'], us: [1e3, 'µs'] };
const COLORS = { green: '32', red: '31', cyan: '36', faint: '2', faintCyan: '36;2' };

const trimmed = (value) => `${parseFloat(value.toFixed(6))}`;
const cut = (value) => `${parseFloat((Math.trunc(value * 100) / 100).toFixed(2))}`;

function humanizeBytes(bytes) {
  if (bytes < 10) return `${bytes} B`;
  const step = Math.floor(Math.log(bytes) / Math.log(1000));
  const value = Math.floor((bytes / 1000 ** step) * 10 + 0.5) / 10;
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB', 'ZB', 'YB'];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[step]}`;
}

function humanizeTime(ms, unit) {
  if (TIME_UNITS[unit]) return (ms * TIME_UNITS[unit][0]).toFixed(2) + TIME_UNITS[unit][1];
  if (ms === 0) return '0s';
  if (ms < 0.001) return `${Math.trunc(ms * 1e6)}ns`;
  if (ms < 1) return `${cut(ms * 1000)}µs`;
  if (ms < 1000) return `${cut(ms)}ms`;
  if (ms < 60000) return `${cut(ms / 1000)}s`;
  const seconds = Math.trunc(ms / 1000);
  const minutes = Math.trunc(seconds / 60);
  const hours = Math.trunc(minutes / 60);
  return `${hours ? `${hours}h` : ''}${minutes % 60}m${seconds % 60}s`;
}

export function humanizeValue(value, metric, timeUnit) {
  if (metric.type === 'rate') return `${(Math.trunc(value * 10000) / 100).toFixed(2)}%`;
  if (metric.contains === 'data') return humanizeBytes(value);
  if (metric.contains === 'time') return humanizeTime(value, timeUnit);
  return trimmed(value);
}

const width = (text) => [...text.normalize('NFKC')].length;

// Names go by the alphabet: punctuation, symbols, digits, letters; then accents, then case.
const ORDER = ' _-,;:!?.\'"()[]{}@*/\\&#%`^+<=>|~$';
const ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyz';
const SYMBOLS_END = 0x200000;
function rank(char) {
  const [mark, letter] = [ORDER.indexOf(char), ALPHABET.indexOf(char)];
  if (mark >= 0) return mark;
  if (letter >= 0) return SYMBOLS_END + letter;
  const code = char.codePointAt(0);
  const isSymbol = (code >= 0x2000 && code < 0x2c00) || code >= 0x1f000 || code < 0x80;
  return (isSymbol ? ORDER.length : 2 * SYMBOLS_END) + code;
}
function compareNames(a, b) {
  const levels = (name) => {
    const accented = name
      .normalize('NFKD')
      .toLowerCase()
      .replace(/\u200d/g, '');
    return [Array.from(accented.replace(/[\u0300-\u036f]/g, ''), rank), accented];
  };
  const [[left, leftAccents], [right, rightAccents]] = [levels(a), levels(b)];
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    if (left[i] !== right[i]) return left[i] - right[i];
  }
  const later = (x, y) => (x > y) - (x < y);
  return left.length - right.length || later(leftAccents, rightAccents) || later(b, a);
}
const parentOf = (name) => name.split('{', 1)[0];

function groupLines(group, indent, paint, lines) {
  if (group.name) lines.push(`${indent}█ ${group.name}`, '');
  const inner = group.name ? `${indent}  ` : indent;
  for (const { name, passes, fails } of group.checks) {
    if (!fails) {
      lines.push(paint('green', `${inner}✓ ${name}`));
    } else {
      const share = Math.floor((100 * passes) / (passes + fails));
      lines.push(
        paint('red', `${inner}✗ ${name}\n${inner} ↳  ${share}% — ✓ ${passes} / ✗ ${fails}`),
      );
    }
  }
  if (group.checks.length) lines.push('');
  for (const child of group.groups) groupLines(child, inner, paint, lines);
}

// The value of a metric and what stands beside it, for every type but trends.
function plainValues(metric, unit) {
  const { values } = metric;
  const show = (value) => humanizeValue(value, metric, unit);
  switch (metric.type) {
    case 'counter':
      return [show(values.count), `${show(values.rate)}/s`];
    case 'gauge':
      return [show(values.value), `min=${show(values.min)}`, `max=${show(values.max)}`];
    case 'rate':
      return [show(values.rate), `✓ ${values.passes}`, `✗ ${values.fails}`];
    default:
      return ['[no data]'];
  }
}

function metricLines(data, indent, { paint, unit, stats }, lines) {
  const rows = Object.keys(data.metrics).map((name) => {
    const metric = data.metrics[name];
    const parent = parentOf(name);
    const title = parent === name ? name : `  { ${name.slice(parent.length + 1, -1)} }`;
    const cells =
      metric.type === 'trend'
        ? stats.map((stat) =>
            stat === 'count'
              ? `${metric.values.count}`
              : humanizeValue(metric.values[stat], metric, unit),
          )
        : plainValues(metric, unit);
    return { name, parent, title, metric, cells, trend: metric.type === 'trend' };
  });
  rows.sort((a, b) => compareNames(a.parent, b.parent) || compareNames(a.name, b.name));
  const widest = (texts) => texts.reduce((most, text) => Math.max(most, width(text || '')), 0);
  const columns = (trend) =>
    [0, 1, 2]
      .concat(stats.map((_, i) => i))
      .map((_, i) => widest(rows.filter((row) => row.trend === trend).map((row) => row.cells[i])));
  const [trendWidths, plainWidths] = [columns(true), columns(false)];
  const titleWidth = widest(rows.map((row) => row.title));

  for (const { title, metric, cells, trend } of rows) {
    const inset = title.startsWith(' ') ? '  ' : '';
    const marks = Object.values(metric.thresholds || {});
    const mark = !marks.length
      ? ' '
      : marks.every(({ ok }) => ok)
        ? paint('green', '✓')
        : paint('red', '✗');
    const dots = paint('faint', `${'.'.repeat(titleWidth - width(title) + 3)}:`);
    const painted = cells.map((cell, i) => {
      const color = trend || i === 0 ? 'cyan' : 'faintCyan';
      const room = trend ? trendWidths[i] : cells.length === 2 && i === 1 ? 0 : plainWidths[i];
      const space = ' '.repeat(Math.max(0, room - width(cell)));
      return (trend ? `${stats[i]}=` : '') + paint(color, cell) + space;
    });
    lines.push(
      `${indent.slice(0, -2)}${inset}${mark} ${title.slice(inset.length)}${dots} ` +
        painted.join(' '),
    );
  }
}

// Options: indent (' '), enableColors (true), summaryTimeUnit, summaryTrendStats.
export function textSummary(data, options = {}) {
  const { indent = ' ', enableColors = true } = options || {};
  const given = data.options || {};
  const unit = (options || {}).summaryTimeUnit || given.summaryTimeUnit;
  const stats = (options || {}).summaryTrendStats ||
    given.summaryTrendStats || ['avg', 'min', 'med', 'max', 'p(90)', 'p(95)'];
  const paint = enableColors
    ? (color, text) => `\x1b[${COLORS[color]}m${text}\x1b[0m`
    : (_, text) => text;
  const lines = [];
  if (data.root_group) groupLines(data.root_group, `${indent}    `, paint, lines);
  metricLines(data, `${indent}    `, { paint, unit, stats }, lines);
  return lines.join('\n');
}

const escapeXml = (text) =>
  `${text}`.replace(
    /[&<>"']/g,
    (char) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[char],
  );

// One test case for each threshold. Options: name, classname.
export function jUnit(data, options = {}) {
  const { name = 'k6 thresholds', classname = 'Unnamed folder' } = options || {};
  const cases = [];
  let failures = 0;
  for (const [metricName, { thresholds, values }] of Object.entries(data.metrics)) {
    for (const [expression, { ok }] of Object.entries(thresholds || {})) {
      const title = escapeXml(`${metricName} - ${expression}`);
      const head = `<testcase name="${title}" classname="${escapeXml(classname)}"`;
      if (ok) {
        cases.push(`${head} />`);
        continue;
      }
      failures += 1;
      const stat = expression.split(/[<>=!]/, 1)[0].trim();
      const seen = values && stat in values ? `: ${stat}=${values[stat]}` : '';
      cases.push(`${head}><failure message="${escapeXml(`failed${seen}`)}" /></testcase>`);
    }
  }
  const totals = `tests="${cases.length}" failures="${failures}"`;
  return [
    '<?xml version="1.0"?>',
    `<testsuites ${totals}>`,
    `<testsuite name="${escapeXml(name)}" ${totals}>`,
    ...cases,
    '</testsuite>',
    '</testsuites>',
  ].join('\n');
}
