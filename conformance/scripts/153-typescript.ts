// TypeScript: types, enums, interfaces, classes, generics, imports of .ts.
//
// area: TypeScript
// covers: type annotations; enum; interface; abstract class; parameter properties; generics
// covers: type import; as and satisfies; non-null
import http from 'k6/http';
import { check } from 'k6';
import type { Options } from 'k6/options';
import { Colour, Size, Square, pair, type Shape, Base } from './lib/shapes.ts';

export const options: Options = { vus: 1, iterations: 1, thresholds: { checks: ['rate==1'] } };

interface Answer { user: { name: string; age?: number } }
type Key = keyof Answer;
const say = (key: string, value: unknown): void => console.log('RESULT ' + key + ' ' + JSON.stringify(value));
function first<T>(list: readonly T[], fallback?: T): T | undefined { return list[0] ?? fallback; }
declare const __UNUSED: string;
namespace Util { export const double = (n: number): number => n * 2; }

export default function (): void {
  const res = http.get(`${__ENV.BASE}/json`);
  const answer = res.json() as unknown as Answer;
  say('as and satisfies', [answer.user.name, (<any>answer).user.age]);
  say('enum', [Colour.Red, Colour.Green, Colour.Blue, Colour[6], Size.Large, Object.keys(Size)]);
  const shape: Shape & { scaled: number } = new Square(3);
  say('abstract class', [shape.name, shape.area(), shape.scaled, Base.made()]);
  say('generics', [pair<number>(1, 2), first<string>([], 'none')]);
  say('non-null', answer!.user!.name);
  const tuple: [string, number?] = ['x'];
  let optional: string | null = null;
  say('parameter properties', [tuple.length, optional ?? 'empty']);
  const key: Key = 'user';
  say('interface', key);
  say('namespace', Util.double(4));
  check(res, { ok: (r): boolean => r.status === 200 });
}
