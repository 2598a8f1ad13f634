// k6-utils: small helpers for load test scripts.
import { check as checkNow } from 'k6';
import { randomBytes } from 'k6/crypto';
import exec from 'k6/execution';

export const randomIntBetween = (min, max) => Math.floor(Math.random() * (max - min + 1) + min);

export const randomItem = (items) => items[Math.floor(Math.random() * items.length)];

export function randomString(length, charset = 'abcdefghijklmnopqrstuvwxyz') {
  let text = '';
  for (let left = length; left > 0; left--)
    text += charset[Math.floor(Math.random() * charset.length)];
  return text;
}

// With `secure` the bits come from the operating system, otherwise from Math.random.
export function uuidv4(secure = false) {
  const bytes = secure
    ? new Uint8Array(randomBytes(16))
    : Uint8Array.from({ length: 16 }, () => Math.random() * 256);
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0'))
    .join('')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

export function findBetween(content, left, right, repeat = false) {
  const found = [];
  for (let at = content.indexOf(left); at >= 0; at = content.indexOf(left, at)) {
    const start = at + left.length;
    const end = content.indexOf(right, start);
    if (end < 0) break;
    found.push(content.slice(start, end));
    if (!repeat) break;
    at = end + right.length;
  }
  return repeat ? found : found.length ? found[0] : '';
}

// A bell curve between two standard deviations to either side, in stages of equal length.
export function normalDistributionStages(maxVus, durationSeconds, numberOfStages = 10) {
  const heights = Array.from({ length: numberOfStages }, (_, i) => {
    const x = numberOfStages > 1 ? (4 * i) / (numberOfStages - 1) - 2 : 0;
    return Math.exp((-x * x) / 2);
  });
  const peak = Math.max(...heights);
  const endMs = (i) => Math.round((durationSeconds * 1000 * i) / numberOfStages);
  return heights.map((height, i) => ({
    duration: `${(endMs(i + 1) - endMs(i)) / 1000}s`,
    target: Math.round((maxVus * height) / peak),
  }));
}

const UNIT_MS = { d: 864e5, h: 36e5, m: 6e4, s: 1e3, ms: 1, us: 1e-3, µs: 1e-3, ns: 1e-6 };

function toMs(duration) {
  if (!Number.isNaN(Number(duration))) return Number(duration);
  let ms = 0;
  for (const [, amount, unit] of duration.matchAll(/([\d.]+)(ms|us|µs|ns|[dhms])/g))
    ms += amount * UNIT_MS[unit];
  return ms;
}

function currentScenario(caller) {
  const { name, executor, startTime } = exec.scenario;
  const config = exec.test.options.scenarios && exec.test.options.scenarios[name];
  if (!config || !config.stages || !config.stages.length) {
    throw new Error(
      `${caller}: scenario ${name} has no stages; ` +
        `ramping-vus and ramping-arrival-rate have them, ${executor} has not`,
    );
  }
  return { config, elapsed: Date.now() - startTime };
}

function stageIndex({ config, elapsed }) {
  let end = 0;
  const index = config.stages.findIndex(({ duration }) => (end += toMs(duration)) > elapsed);
  // What still runs after the last stage belongs to it.
  return index < 0 ? config.stages.length - 1 : index;
}

export const getCurrentStageIndex = () => stageIndex(currentScenario('getCurrentStageIndex'));

export function tagWithCurrentStageIndex() {
  exec.vu.metrics.tags.stage = `${stageIndex(currentScenario('tagWithCurrentStageIndex'))}`;
}

export function tagWithCurrentStageProfile() {
  const scenario = currentScenario('tagWithCurrentStageProfile');
  const { stages } = scenario.config;
  const index = stageIndex(scenario);
  const rise = index === 0 ? 1 : stages[index].target - stages[index - 1].target;
  exec.vu.metrics.tags.stage_profile = rise > 0 ? 'ramp-up' : rise < 0 ? 'ramp-down' : 'steady';
}

const isPromise = (value) => !!value && typeof value.then === 'function';

// k6's check, which also waits for promises: it gives a promise when one of the tests does.
export function check(value, tests, tags) {
  if (isPromise(value)) return value.then((settled) => check(settled, tests, tags));
  const now = {};
  const later = [];
  for (const [name, test] of Object.entries(tests)) {
    const rethrow = (error) => () => {
      throw error;
    };
    const report = (outcome) => checkNow(value, { [name]: outcome }, tags);
    try {
      const outcome = typeof test === 'function' ? test(value) : test;
      if (isPromise(outcome))
        later.push(
          outcome.then(
            (held) => report(!!held),
            (error) => report(rethrow(error)),
          ),
        );
      else now[name] = !!outcome;
    } catch (error) {
      now[name] = rethrow(error);
      break;
    }
  }
  const passed = checkNow(value, now, tags);
  return later.length ? Promise.all(later).then((all) => passed && all.every(Boolean)) : passed;
}
