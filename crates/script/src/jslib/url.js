// url: URL and URLSearchParams after the WHATWG standard (without Windows drive letters).

const PORTS = {
  'http:': '80',
  'https:': '443',
  'ws:': '80',
  'wss:': '443',
  'ftp:': '21',
  'file:': '',
};
const isSpecial = (scheme) => scheme in PORTS;

// What is percent-encoded where, besides controls and everything beyond ASCII.
const IN_FRAGMENT = /[ "<>`]/;
const IN_QUERY = /[ "#<>]/;
const IN_SPECIAL_QUERY = /[ "#<>']/;
const IN_PATH = /[ "#<>?`{}]/;
const IN_USERINFO = /[ "#<>?^`{}/:;=@[\\\]|]/;
const NOTHING = /[^\s\S]/;
const FORBIDDEN_IN_HOST = /[\0\t\n\r #/:<>?@[\\\]^|]/;
const FORBIDDEN_IN_DOMAIN = /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/;

const hexByte = (code) => `%${code.toString(16).toUpperCase().padStart(2, '0')}`;

function percentEncode(text, set) {
  let out = '';
  for (const char of text) {
    const code = char.codePointAt(0);
    if (code >= 0xd800 && code <= 0xdfff) out += '%EF%BF%BD';
    else if (code > 0x7e) out += code === 0x7f ? '%7F' : encodeURIComponent(char);
    else out += code < 0x20 || set.test(char) ? hexByte(code) : char;
  }
  return out;
}

// A run of %XX as text; bytes that are not UTF-8 become U+FFFD.
function decodeRun(run) {
  try {
    return decodeURIComponent(run);
  } catch (_) {
    let out = '';
    for (let at = 0; at < run.length;) {
      const first = parseInt(run.slice(at + 1, at + 3), 16);
      const length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
      try {
        out += decodeURIComponent(run.slice(at, at + 3 * length));
        at += 3 * length;
      } catch (__) {
        out += '\ufffd';
        at += 3;
      }
    }
    return out;
  }
}
const percentDecode = (text) => text.replace(/(?:%[0-9a-f]{2})+/gi, decodeRun);

// RFC 3492 for one label.
function punycode(label) {
  const points = Array.from(label, (char) => char.codePointAt(0));
  let out = points
    .filter((point) => point < 128)
    .map((point) => String.fromCharCode(point))
    .join('');
  const basic = out.length;
  if (basic) out += '-';
  const digit = (value) => String.fromCharCode(value + (value < 26 ? 97 : 22));
  for (let n = 128, delta = 0, bias = 72, done = basic; done < points.length; delta++, n++) {
    const next = Math.min(...points.filter((point) => point >= n));
    delta += (next - n) * (done + 1);
    n = next;
    for (const point of points) {
      if (point < n) delta++;
      if (point !== n) continue;
      let q = delta;
      for (let k = 36; ; k += 36) {
        const t = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
        if (q < t) break;
        out += digit(t + ((q - t) % (36 - t)));
        q = Math.floor((q - t) / (36 - t));
      }
      out += digit(q);
      delta = Math.floor(delta / (done === basic ? 700 : 2));
      delta += Math.floor(delta / (done + 1));
      let k = 0;
      for (; delta > 455; k += 36) delta = Math.floor(delta / 35);
      bias = k + Math.floor((36 * delta) / (delta + 38));
      delta = 0;
      done++;
    }
  }
  return `xn--${out}`;
}

function parseIPv4Part(part) {
  const [digits, radix] = /^0x/i.test(part)
    ? [part.slice(2), 16]
    : /^0./.test(part)
      ? [part.slice(1), 8]
      : [part, 10];
  const allowed = { 8: /^[0-7]*$/, 10: /^\d+$/, 16: /^[\da-f]*$/i }[radix];
  return allowed.test(digits) ? parseInt(digits || '0', radix) : NaN;
}

// The address that a host ending in a number stands for; null when it is none, undefined when bad.
function parseIPv4(host) {
  const parts = host.split('.');
  if (parts.length > 1 && parts[parts.length - 1] === '') parts.pop();
  const last = parts[parts.length - 1];
  if (!/^\d+$/.test(last) && !/^0x[\da-f]*$/i.test(last)) return null;
  const numbers = parts.map(parseIPv4Part);
  const tail = numbers.pop();
  if (parts.length > 4 || numbers.some((n) => !(n <= 255)) || !(tail < 256 ** (4 - numbers.length)))
    return undefined;
  const address = numbers.reduce((sum, n, i) => sum + n * 256 ** (3 - i), tail);
  return [3, 2, 1, 0].map((i) => Math.floor(address / 256 ** i) % 256).join('.');
}

function parseIPv6(text) {
  let source = text;
  const v4 = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text);
  if (v4) {
    const bytes = v4.slice(2).map(Number);
    if (bytes.some((byte, i) => byte > 255 || `${byte}` !== v4[i + 2])) return undefined;
    const pair = (at) => (bytes[at] * 256 + bytes[at + 1]).toString(16);
    source = `${v4[1]}${pair(0)}:${pair(2)}`;
  }
  const halves = source.split('::');
  if (halves.length > 2) return undefined;
  const [head, rest] = halves.map((half) => (half ? half.split(':') : []));
  const missing = 8 - head.length - (rest ? rest.length : 0);
  if (rest ? missing < 1 : missing !== 0) return undefined;
  const pieces = head.concat(rest ? Array(missing).fill('0') : [], rest || []);
  if (!pieces.every((piece) => /^[\da-f]{1,4}$/i.test(piece))) return undefined;
  const written = pieces.map((piece) => parseInt(piece, 16).toString(16)).join(':');
  // The longest run of zeros, of two at least, is written as "::"; the first of equal ones.
  const runs = [...`:${written}:`.matchAll(/(?::0)+(?=:)/g)];
  const longest = runs.reduce((best, run) => (run[0].length > best[0].length ? run : best), [':0']);
  if (longest[0] === ':0') return `[${written}]`;
  const [before, after] = [
    written.slice(0, Math.max(0, longest.index - 1)),
    written.slice(longest.index + longest[0].length),
  ];
  return `[${before}::${after.replace(/^:/, '')}]`;
}

function parseHost(text, special) {
  if (text[0] === '[') return text.endsWith(']') ? parseIPv6(text.slice(1, -1)) : undefined;
  if (!special) return FORBIDDEN_IN_HOST.test(text) ? undefined : percentEncode(text, NOTHING);
  const domain = percentDecode(text)
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[\u3002\uff0e\uff61]/g, '.')
    .replace(/\u00ad/g, '');
  const ascii = domain
    .split('.')
    .map((label) => (/[^\0-\x7f]/.test(label) ? punycode(label) : label))
    .join('.');
  if (!ascii || FORBIDDEN_IN_DOMAIN.test(ascii)) return undefined;
  const address = parseIPv4(ascii);
  return address === null ? ascii : address;
}

function parsePort(url, text) {
  if (!/^\d*$/.test(text) || Number(text) > 65535) return false;
  const port = text === '' ? '' : `${Number(text)}`;
  url.port = port === PORTS[url.scheme] ? '' : port;
  return true;
}

function parseAuthority(url, text) {
  const special = isSpecial(url.scheme);
  const at = text.lastIndexOf('@');
  const [userinfo, place] = at < 0 ? ['', text] : [text.slice(0, at), text.slice(at + 1)];
  if (userinfo) {
    const colon = userinfo.indexOf(':');
    url.username = percentEncode(colon < 0 ? userinfo : userinfo.slice(0, colon), IN_USERINFO);
    url.password = colon < 0 ? '' : percentEncode(userinfo.slice(colon + 1), IN_USERINFO);
  }
  const [, host, , port] = /^(\[[^\]]*\]|[^:]*)(:([^]*))?$/.exec(place) || [];
  if (host === undefined || (host === '' && (special || at >= 0 || port !== undefined)))
    return false;
  url.host = host === '' ? '' : parseHost(host, special);
  return url.host !== undefined && parsePort(url, port || '');
}

// Puts the segments of `text` after those in `path`, resolving dots.
function appendPath(path, text, special) {
  const segments = text.split(special ? /[/\\]/ : '/');
  segments.forEach((segment, i) => {
    const isLast = i === segments.length - 1;
    if (/^(\.|%2e){2}$/i.test(segment)) {
      path.pop();
      if (isLast) path.push('');
    } else if (/^(\.|%2e)$/i.test(segment)) {
      if (isLast) path.push('');
    } else {
      path.push(percentEncode(segment, IN_PATH));
    }
  });
  return path;
}

function setQuery(url, text) {
  url.query = percentEncode(text, isSpecial(url.scheme) ? IN_SPECIAL_QUERY : IN_QUERY);
}

const pathText = (url) =>
  url.opaque ? url.path : url.path.map((segment) => `/${segment}`).join('');

// A record of the parts, or null when `input` is no URL.
function parse(input, base) {
  let text = input.replace(/^[\0-\x20]+|[\0-\x20]+$/g, '').replace(/[\t\n\r]/g, '');
  const url = {
    scheme: '',
    username: '',
    password: '',
    host: null,
    port: '',
    path: [],
    opaque: false,
    query: null,
    fragment: null,
  };
  const cutAt = (mark) => {
    const at = text.indexOf(mark);
    if (at < 0) return null;
    const tail = text.slice(at + 1);
    text = text.slice(0, at);
    return tail;
  };
  const fragment = cutAt('#');
  if (fragment !== null) url.fragment = percentEncode(fragment, IN_FRAGMENT);
  const query = cutAt('?');
  const scheme = /^[a-z][a-z\d+.-]*:/i.exec(text);
  if (scheme) {
    url.scheme = scheme[0].toLowerCase();
    text = text.slice(scheme[0].length);
  }
  const slashes = isSpecial(url.scheme || (base && base.scheme)) ? /^[/\\]{2}/ : /^\/\//;
  const sameSpecial = base && isSpecial(url.scheme) && base.scheme === url.scheme;
  const relative = !scheme || (sameSpecial && !/^\/\//.test(text)) ? base : null;
  if (!scheme && !base) return null;
  if (!scheme && base.opaque && (text || query !== null || fragment === null)) return null;
  if (!scheme) url.scheme = base.scheme;
  const special = isSpecial(url.scheme);
  if (query !== null) setQuery(url, query);

  const isFile = url.scheme === 'file:';
  if (slashes.test(text) || (special && !isFile && !relative)) {
    const rest = isFile || !special ? text.slice(2) : text.replace(/^[/\\]*/, '');
    const end = rest.search(special ? /[/\\]/ : '/');
    const authority = end < 0 ? rest : rest.slice(0, end);
    if (isFile) {
      url.host = authority ? parseHost(authority, true) : '';
      if (url.host === undefined) return null;
      if (url.host === 'localhost') url.host = '';
    } else if (!parseAuthority(url, authority)) {
      return null;
    }
    if (end >= 0) appendPath(url.path, rest.slice(end + 1), special);
    else if (special) url.path = [''];
    return url;
  }
  if (relative) {
    for (const part of ['username', 'password', 'host', 'port', 'opaque'])
      url[part] = relative[part];
    if (text === '') {
      url.path = relative.opaque ? relative.path : relative.path.slice();
      if (query === null) url.query = relative.query;
    } else if (special ? /^[/\\]/.test(text) : text[0] === '/') {
      appendPath(url.path, text.slice(1), special);
    } else {
      url.path = appendPath(relative.path.slice(0, -1), text, special);
    }
    return url;
  }
  if (isFile) url.host = '';
  if (isFile || text[0] === '/') {
    appendPath(url.path, text.replace(special ? /^[/\\]/ : /^\//, ''), special);
  } else {
    url.opaque = true;
    url.path = percentEncode(text, NOTHING);
  }
  return url;
}

function serialize(url, withFragment = true) {
  let out = url.scheme;
  if (url.host !== null) {
    const password = url.password && `:${url.password}`;
    const userinfo = url.username || password ? `${url.username}${password}@` : '';
    out += `//${userinfo}${url.host}${url.port && `:${url.port}`}`;
  } else if (!url.opaque && url.path.length > 1 && url.path[0] === '') {
    out += '/.';
  }
  out += pathText(url);
  if (url.query !== null) out += `?${url.query}`;
  return withFragment && url.fragment !== null ? `${out}#${url.fragment}` : out;
}

const formEncode = (text) => percentEncode(`${text}`, /[^\w*.-]/).replace(/%20/g, '+');
const formDecode = (text) => percentDecode(text.replace(/\+/g, ' '));
const wellFormed = (value) =>
  Array.from(`${value}`, (char) => (/^[\ud800-\udfff]$/.test(char) ? '\ufffd' : char)).join('');

function parseForm(text) {
  return wellFormed(text)
    .split('&')
    .filter(Boolean)
    .map((pair) => {
      const at = pair.indexOf('=');
      return at < 0
        ? [formDecode(pair), '']
        : [formDecode(pair.slice(0, at)), formDecode(pair.slice(at + 1))];
    });
}

const CHANGED = Symbol('changed');
const REPLACE = Symbol('replace');

export class URLSearchParams {
  #pairs = [];

  constructor(init = '') {
    const pair = (entry) => {
      const [name, value, ...more] = entry;
      if (value === undefined || more.length)
        throw new TypeError('URLSearchParams takes pairs of a name and a value');
      return [wellFormed(name), wellFormed(value)];
    };
    if (init !== null && typeof init === 'object') {
      const entries =
        typeof init[Symbol.iterator] === 'function' ? Array.from(init) : Object.entries(init);
      this.#pairs = entries.map(pair);
    } else {
      this.#pairs = parseForm(`${init}`.replace(/^\?/, ''));
    }
  }

  [REPLACE](query) {
    this.#pairs = parseForm(query);
  }

  #change(pairs) {
    this.#pairs = pairs;
    if (this[CHANGED]) this[CHANGED](this.toString());
  }

  get size() {
    return this.#pairs.length;
  }
  append(name, value) {
    this.#change([...this.#pairs, [wellFormed(name), wellFormed(value)]]);
  }
  delete(name, value) {
    this.#change(
      this.#pairs.filter(([n, v]) => n !== `${name}` || (value !== undefined && v !== `${value}`)),
    );
  }
  get(name) {
    const found = this.#pairs.find(([n]) => n === `${name}`);
    return found ? found[1] : null;
  }
  getAll(name) {
    return this.#pairs.filter(([n]) => n === `${name}`).map(([, value]) => value);
  }
  has(name, value) {
    return this.#pairs.some(
      ([n, v]) => n === `${name}` && (value === undefined || v === `${value}`),
    );
  }
  set(name, value) {
    const key = wellFormed(name);
    const first = this.#pairs.findIndex(([n]) => n === key);
    if (first < 0) {
      this.append(key, value);
      return;
    }
    const kept = this.#pairs.filter(([n], i) => n !== key || i === first);
    kept[first] = [key, wellFormed(value)];
    this.#change(kept);
  }
  sort() {
    this.#change(this.#pairs.slice().sort(([a], [b]) => (a > b) - (a < b)));
  }
  forEach(visit, self) {
    for (const [name, value] of this.#pairs) visit.call(self, value, name, this);
  }
  *entries() {
    for (let i = 0; i < this.#pairs.length; i++) yield [...this.#pairs[i]];
  }
  *keys() {
    for (const [name] of this.entries()) yield name;
  }
  *values() {
    for (const [, value] of this.entries()) yield value;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  get [Symbol.toStringTag]() {
    return 'URLSearchParams';
  }
  toString() {
    return this.#pairs.map(([name, value]) => `${formEncode(name)}=${formEncode(value)}`).join('&');
  }
}

export class URL {
  #url;
  #params;

  constructor(input, base) {
    const parsedBase = base === undefined ? null : parse(`${base}`, null);
    if (base !== undefined && !parsedBase) throw new TypeError(`Invalid base URL: ${base}`);
    this.#url = parse(`${input}`, parsedBase);
    if (!this.#url) throw new TypeError(`Invalid URL: ${input}`);
    this.#params = new URLSearchParams(this.#url.query || '');
    Object.defineProperty(this.#params, CHANGED, {
      value: (query) => {
        this.#url.query = query || null;
      },
    });
  }

  static canParse(input, base) {
    try {
      return !!new URL(input, base);
    } catch (_) {
      return false;
    }
  }

  #hasNoPlace() {
    return !this.#url.host || this.#url.scheme === 'file:';
  }

  get href() {
    return serialize(this.#url);
  }
  set href(value) {
    const url = parse(`${value}`, null);
    if (!url) throw new TypeError(`Invalid URL: ${value}`);
    this.#url = url;
    this.#params[REPLACE](url.query || '');
  }

  get origin() {
    const { scheme, host, port } = this.#url;
    return isSpecial(scheme) && scheme !== 'file:'
      ? `${scheme}//${host}${port && `:${port}`}`
      : 'null';
  }

  get protocol() {
    return this.#url.scheme;
  }
  set protocol(value) {
    const scheme = /^([a-z][a-z\d+.-]*)(:|$)/i.exec(`${value}`);
    if (!scheme) return;
    const url = this.#url;
    const wanted = `${scheme[1].toLowerCase()}:`;
    if (isSpecial(wanted) !== isSpecial(url.scheme)) return;
    if (wanted === 'file:' && (url.username || url.password || url.port)) return;
    if (url.scheme === 'file:' && !url.host) return;
    url.scheme = wanted;
    if (url.port === PORTS[wanted]) url.port = '';
  }

  get username() {
    return this.#url.username;
  }
  set username(value) {
    if (!this.#hasNoPlace()) this.#url.username = percentEncode(`${value}`, IN_USERINFO);
  }
  get password() {
    return this.#url.password;
  }
  set password(value) {
    if (!this.#hasNoPlace()) this.#url.password = percentEncode(`${value}`, IN_USERINFO);
  }

  get host() {
    return `${this.hostname}${this.#url.port && `:${this.#url.port}`}`;
  }
  set host(value) {
    this.#setHost(`${value}`, true);
  }
  get hostname() {
    return this.#url.host || '';
  }
  set hostname(value) {
    this.#setHost(`${value}`, false);
  }

  #setHost(value, withPort) {
    const url = this.#url;
    if (url.opaque) return;
    const special = isSpecial(url.scheme);
    const place = value.replace(/[\t\n\r]/g, '').split(special ? /[/\\?#]/ : /[/?#]/, 1)[0];
    const [, host, port] = /^(\[[^\]]*\]|[^:]*)(?::(\d*))?/.exec(place);
    if ((!withPort || url.scheme === 'file:') && place.length > host.length) return;
    if (
      host === '' &&
      (special ? url.scheme !== 'file:' : url.username || url.password || url.port)
    )
      return;
    const parsed = host === '' ? '' : parseHost(host, special);
    if (parsed === undefined) return;
    url.host = parsed;
    if (withPort && port) parsePort(url, port);
  }

  get port() {
    return this.#url.port;
  }
  set port(value) {
    if (this.#hasNoPlace()) return;
    const digits = /^\d*/.exec(`${value}`)[0];
    if (digits || `${value}` === '') parsePort(this.#url, digits);
  }

  get pathname() {
    return pathText(this.#url);
  }
  set pathname(value) {
    if (this.#url.opaque) return;
    const special = isSpecial(this.#url.scheme);
    const text = `${value}`.replace(/[\t\n\r]/g, '').replace(special ? /^[/\\]/ : /^\//, '');
    this.#url.path = appendPath([], text, special);
  }

  get search() {
    return this.#url.query ? `?${this.#url.query}` : '';
  }
  set search(value) {
    const text = `${value}`.replace(/^\?/, '').replace(/[\t\n\r]/g, '');
    if (`${value}` === '') this.#url.query = null;
    else setQuery(this.#url, text);
    this.#params[REPLACE](text);
  }

  get searchParams() {
    return this.#params;
  }

  get hash() {
    return this.#url.fragment ? `#${this.#url.fragment}` : '';
  }
  set hash(value) {
    const text = `${value}`.replace(/^#/, '').replace(/[\t\n\r]/g, '');
    this.#url.fragment = `${value}` === '' ? null : percentEncode(text, IN_FRAGMENT);
  }

  get [Symbol.toStringTag]() {
    return 'URL';
  }
  toString() {
    return this.href;
  }
  toJSON() {
    return this.href;
  }
}

export default URL;
