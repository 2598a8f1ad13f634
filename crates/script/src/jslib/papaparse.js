// papaparse: CSV text to rows and back, with Papa Parse's interface for strings.

export const BAD_DELIMITERS = ['\r', '\n', '"', '\ufeff'];
const DELIMITERS_TO_GUESS = [',', '\t', '|', ';', '\x1e', '\x1f'];
const NUMBER = /^\s*-?(\d+\.?|\.\d+|\d+\.\d+)([eE][-+]?\d+)?\s*$/;
const ISO_DATE = /^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d(:[0-5]\d(\.\d+)?)?([+-][0-2]\d:[0-5]\d|Z)$/;
const LARGEST = 2 ** 53;

// The newline that the text uses, judged by what stands outside of quotes.
function guessNewline(text, quote) {
  const start = text.slice(0, 1024 * 1024);
  const escaped = quote.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const plain = quote ? start.replace(new RegExp(`${escaped}[^]*?${escaped}`, 'g'), '') : start;
  if (!plain.includes('\r')) return '\n';
  const crlf = plain.split('\r\n').length - 1;
  const cr = plain.split('\r').length - 1 - crlf;
  if (!crlf && plain.indexOf('\n') >= 0 && plain.indexOf('\n') < plain.indexOf('\r')) return '\n';
  return crlf >= cr ? '\r\n' : '\r';
}

// The delimiter that cuts the first lines into the most even rows of at least two fields.
function guessDelimiter(text, options, candidates) {
  let best;
  let bestDelta;
  let bestFields;
  for (const delimiter of candidates) {
    const { rows } = split(text, { ...options, delimiter, preview: 10 });
    const counts = rows
      .filter((row) => !options.skipEmptyLines || row.length !== 1 || row[0] !== '')
      .map((row) => row.length);
    const delta = counts.slice(1).reduce((sum, count, i) => sum + Math.abs(count - counts[i]), 0);
    const fields = counts.length
      ? counts.reduce((sum, count) => sum + count, 0) / counts.length
      : 0;
    if (
      fields > 1.99 &&
      (bestDelta === undefined || delta < bestDelta || (delta === bestDelta && fields > bestFields))
    ) {
      [best, bestDelta, bestFields] = [delimiter, delta, fields];
    }
  }
  return best;
}

// Cuts text into rows of strings. Gives { rows, errors, cursor, truncated, aborted }; `visit` sees
// each row as it comes and may return false to stop.
function split(
  text,
  { delimiter, newline, quoteChar: quote, escapeChar: escape, comments, preview, fastMode },
  visit,
) {
  const errors = [];
  const rows = [];
  let cursor = 0;
  let row = [];
  const result = (more) => ({ rows, errors, cursor, truncated: false, aborted: false, ...more });
  const lineEnd = (from) => {
    const at = text.indexOf(newline, from);
    return at < 0 ? text.length : at;
  };
  if (!text) return result();

  const noQuotes = fastMode || (fastMode !== false && (!quote || !text.includes(quote)));
  for (;;) {
    if (!row.length && comments && text.startsWith(comments, cursor)) {
      const end = lineEnd(cursor);
      if (end === text.length) return result({ cursor: end });
      cursor = end + newline.length;
      continue;
    }
    let done = false;
    if (noQuotes) {
      const end = lineEnd(cursor);
      row = text.slice(cursor, end).split(delimiter);
      done = end === text.length;
      cursor = done ? end : end + newline.length;
    } else {
      let ended = false;
      while (!ended) {
        if (quote && text.startsWith(quote, cursor)) {
          const field = quotedField(text, cursor, {
            quote,
            escape,
            delimiter,
            newline,
            row: rows.length,
            errors,
          });
          row.push(field.value);
          cursor = field.end;
        } else {
          const stop = lineEnd(cursor);
          const cut = text.indexOf(delimiter, cursor);
          const end = cut >= 0 && cut < stop ? cut : stop;
          row.push(text.slice(cursor, end));
          cursor = end;
        }
        if (cursor >= text.length) {
          ended = done = true;
        } else if (text.startsWith(delimiter, cursor)) {
          cursor += delimiter.length;
          if (cursor >= text.length) {
            row.push('');
            ended = done = true;
          }
        } else {
          cursor += newline.length;
          ended = true;
        }
      }
    }
    rows.push(row);
    const wanted = !visit || visit(row, errors.splice(0), cursor) !== false;
    row = [];
    if (!wanted) return result({ aborted: true });
    if (preview && rows.length >= preview) return result({ truncated: !done });
    if (done) return result();
    // A newline at the end opens one more row, which is empty.
    if (cursor >= text.length) {
      rows.push(['']);
      if (visit) visit([''], [], cursor);
      return result();
    }
  }
}

function quotedField(text, start, { quote, escape, delimiter, newline, row, errors }) {
  const unescape = (raw) => (escape ? raw.split(escape + quote).join(quote) : raw);
  const complain = (code, message) =>
    errors.push({ type: 'Quotes', code, message, row, index: start + quote.length });
  let at = start + quote.length;
  for (;;) {
    const close = text.indexOf(quote, at);
    if (close < 0) {
      complain('MissingQuotes', 'Quoted field unterminated');
      return { value: text.slice(start + quote.length), end: text.length };
    }
    const after = close + quote.length;
    const value = () => unescape(text.slice(start + quote.length, close));
    if (after >= text.length) return { value: value(), end: after };
    if (quote === escape && text.startsWith(quote, after)) {
      at = after + quote.length;
      continue;
    }
    if (quote !== escape && close > 0 && text.startsWith(escape, close - escape.length)) {
      at = after;
      continue;
    }
    // Spaces between the quote and what ends the field are dropped.
    const spaces = /^ */.exec(text.slice(after, after + 64))[0].length;
    const next = after + spaces;
    if (text.startsWith(delimiter, next) || text.startsWith(newline, next))
      return { value: value(), end: next };
    complain('InvalidQuotes', 'Trailing quote on quoted field is malformed');
    at = after;
  }
}

const isBlank = (row, greedy) =>
  greedy ? row.join('').trim() === '' : row.length === 1 && row[0] === '';

function typed(value) {
  if (value === 'true' || value === 'TRUE') return true;
  if (value === 'false' || value === 'FALSE') return false;
  if (NUMBER.test(value)) {
    const number = parseFloat(value);
    return Math.abs(number) < LARGEST ? number : value;
  }
  if (ISO_DATE.test(value)) return new Date(value);
  return value === '' ? null : value;
}

export function parse(input, config = {}) {
  const options = config || {};
  if (typeof input !== 'string')
    throw new TypeError('Papa.parse reads strings only; open() the file and pass its text');
  if (options.download || options.worker)
    throw new Error('Papa.parse: download and worker are not available in scripts');
  let text = input;
  if (options.beforeFirstChunk) {
    const changed = options.beforeFirstChunk(text);
    if (changed !== undefined) text = changed;
  }
  const quoteChar = options.quoteChar === undefined ? '"' : options.quoteChar || '';
  const escapeChar = options.escapeChar === undefined ? quoteChar : options.escapeChar;
  const newline = ['\n', '\r', '\r\n'].includes(options.newline)
    ? options.newline
    : guessNewline(text, quoteChar);
  // In the order in which they are given: of quotes, of the delimiter, of rows against the header.
  const quoteErrors = [];
  const errors = [];
  let { delimiter } = options;
  if (typeof delimiter === 'function') delimiter = delimiter(text);
  const comments = options.comments === true ? '#' : options.comments || false;
  const shape = {
    newline,
    quoteChar,
    escapeChar,
    comments,
    fastMode: options.fastMode,
    skipEmptyLines: options.skipEmptyLines,
  };
  if (!delimiter) {
    const plain = { ...shape, quoteChar: '"', escapeChar: '"', fastMode: undefined };
    delimiter = guessDelimiter(text, plain, options.delimitersToGuess || DELIMITERS_TO_GUESS);
    if (!delimiter) {
      delimiter = ',';
      errors.push({
        type: 'Delimiter',
        code: 'UndetectableDelimiter',
        message: "Unable to auto-detect delimiting character; defaulted to ','",
      });
    }
  } else if (BAD_DELIMITERS.includes(delimiter)) {
    delimiter = ',';
  }
  if (comments === delimiter) throw new Error('Comment character same as delimiter');

  const meta = { delimiter, linebreak: newline, aborted: false, truncated: false, cursor: 0 };
  const data = [];
  let fields;
  let paused = false;
  const handle = {
    abort: () => {
      meta.aborted = true;
    },
    pause: () => {
      paused = true;
    },
    resume: () => {
      paused = false;
    },
    getCharIndex: () => meta.cursor,
    paused: () => paused,
  };
  const wantsType = (field) => {
    const { dynamicTyping } = options;
    if (typeof dynamicTyping === 'function') return dynamicTyping(field);
    return dynamicTyping === true || (!!dynamicTyping && dynamicTyping[field] === true);
  };
  const convert = (value, field) => {
    const changed = options.transform ? options.transform(value, field) : value;
    return typeof changed === 'string' && wantsType(field) ? typed(changed) : changed;
  };

  function record(row, mismatches) {
    if (!options.header) return row.map((value, i) => convert(value, i));
    const entry = {};
    row.forEach((value, i) => {
      const field = i < fields.length ? fields[i] : '__parsed_extra';
      const converted = convert(value, field);
      if (i < fields.length) entry[field] = converted;
      else (entry[field] = entry[field] || []).push(converted);
    });
    if (row.length !== fields.length) {
      const few = row.length < fields.length;
      mismatches.push({
        type: 'FieldMismatch',
        code: few ? 'TooFewFields' : 'TooManyFields',
        message:
          `Too ${few ? 'few' : 'many'} fields: ` +
          `expected ${fields.length} fields but parsed ${row.length}`,
        row: handled,
      });
    }
    return entry;
  }

  let handled = 0;
  const stepping = typeof options.step === 'function';
  const preview = options.preview ? options.preview + (options.header ? 1 : 0) : 0;
  const outcome = split(text, { ...shape, delimiter, preview }, (row, rowErrors, cursor) => {
    if (options.skipEmptyLines && isBlank(row, options.skipEmptyLines === 'greedy')) return true;
    if (options.header && !fields) {
      fields = options.transformHeader ? row.map((name) => options.transformHeader(name)) : row;
      meta.fields = fields;
      quoteErrors.push(...rowErrors);
      return true;
    }
    const mismatches = [];
    const entry = record(row, mismatches);
    handled++;
    meta.cursor = cursor;
    if (stepping) {
      options.step(
        { data: entry, errors: rowErrors.concat(mismatches), meta: { ...meta } },
        handle,
      );
    } else {
      data.push(entry);
      quoteErrors.push(...rowErrors);
      errors.push(...mismatches);
    }
    return !meta.aborted;
  });
  if (options.header && !fields) meta.fields = [];
  Object.assign(meta, {
    cursor: outcome.cursor,
    truncated: outcome.truncated,
    aborted: outcome.aborted,
  });
  const results = { data, errors: [...quoteErrors, ...outcome.errors, ...errors], meta };
  if (options.chunk) options.chunk(results, handle);
  if (options.complete) options.complete(results, input);
  return results;
}

// Rows to text. Takes an array of arrays, an array of objects, or { fields, data }; or any as JSON.
export function unparse(input, config = {}) {
  const options = config || {};
  const quoteChar = options.quoteChar || '"';
  const escapeChar = options.escapeChar === undefined ? quoteChar : options.escapeChar;
  const delimiter =
    options.delimiter && !BAD_DELIMITERS.includes(options.delimiter) ? options.delimiter : ',';
  const newline = options.newline || '\r\n';
  const given = typeof input === 'string' ? JSON.parse(input) : input;
  let fields = options.columns;
  let rows = given;
  if (!Array.isArray(given)) {
    if (!given || typeof given !== 'object')
      throw new Error('Unable to serialize unrecognized input');
    rows = typeof given.data === 'string' ? JSON.parse(given.data) : given.data || [];
    fields = given.fields || (given.meta && given.meta.fields) || fields;
    if (rows.length && !Array.isArray(rows[0]) && typeof rows[0] !== 'object') rows = [rows];
  }
  const ofObjects = rows.length > 0 && !Array.isArray(rows[0]);
  if (ofObjects && typeof rows[0] !== 'object')
    throw new Error('Unable to serialize unrecognized input');
  if (!fields && ofObjects) fields = Object.keys(rows[0]);
  const escapes = options.escapeFormulae === true ? /^[=+\-@\t\r]/ : options.escapeFormulae;

  function cell(value, column) {
    if (value === undefined || value === null) return '';
    if (value instanceof Date) return JSON.stringify(value).slice(1, 25);
    let text = `${value}`;
    const isFormula = escapes && typeof value === 'string' && escapes.test(value);
    if (isFormula) text = `'${text}`;
    const { quotes } = options;
    const asked =
      typeof quotes === 'function'
        ? quotes(value, column)
        : Array.isArray(quotes)
          ? quotes[column]
          : quotes;
    const needed =
      isFormula ||
      text.includes(delimiter) ||
      /["\r\n\ufeff]/.test(text) ||
      text.includes(quoteChar) ||
      text.startsWith(' ') ||
      text.endsWith(' ');
    return asked || needed
      ? quoteChar + text.split(quoteChar).join(escapeChar + quoteChar) + quoteChar
      : text;
  }

  const lines = [];
  const hasHeader = Array.isArray(fields) && fields.length > 0;
  if (hasHeader && options.header !== false) lines.push(fields.map(cell).join(delimiter));
  for (const row of rows) {
    const values = hasHeader
      ? fields.map((field, i) => (Array.isArray(row) ? row[i] : row[field]))
      : Object.values(row);
    const blank =
      options.skipEmptyLines === 'greedy'
        ? values.join('').trim() === ''
        : values.length === 0 || (values.length === 1 && !`${values[0] ?? ''}`.length);
    if (options.skipEmptyLines && blank) continue;
    lines.push(values.map(cell).join(delimiter));
  }
  return lines.join(newline);
}

export const RECORD_SEP = '\x1e';
export const UNIT_SEP = '\x1f';
export const BYTE_ORDER_MARK = '\ufeff';
export const WORKERS_SUPPORTED = false;

const Papa = {
  parse,
  unparse,
  RECORD_SEP,
  UNIT_SEP,
  BYTE_ORDER_MARK,
  BAD_DELIMITERS,
  WORKERS_SUPPORTED,
  DefaultDelimiter: ',',
};
export default Papa;
