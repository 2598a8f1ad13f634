// Types are not checked, only removed.
//
// area: TypeScript
// covers: type errors are ignored; overloads; optional chaining in TypeScript
const say = (key: string, value: unknown) => console.log('RESULT ' + key + ' ' + JSON.stringify(value));
function over(a: string): string;
function over(a: number): number;
function over(a: any): any { return a; }
export const options = { iterations: 1 };
export default (): void => {
  const wrong: number = 'text' as any;
  say('type errors are ignored', [wrong, over(5), over('x')]);
  const maybe: { a?: { b?: number } } = {};
  say('optional chaining in TypeScript', maybe?.a?.b ?? 'none');
  const c = { x: 1 } as const;
  say('const', c.x);
  class Box<T extends object> {
    #inner: T;
    constructor(inner: T) { this.#inner = inner; } get(): T { return this.#inner; }
  }
  say('private', new Box({ y: 2 }).get());
};
