export enum Colour { Red, Green = 5, Blue }
export enum Size { Small = 'S', Large = 'L' }
export interface Shape { readonly name: string; area(): number; colour?: Colour }
export type Pair<A, B = A> = [A, B];
export abstract class Base implements Shape {
  protected static count: number = 0;
  constructor(public readonly name: string, private scale: number = 1) { Base.count++; }
  abstract area(): number;
  get scaled(): number { return this.area() * this.scale; }
  static made(): number { return Base.count; }
}
export class Square extends Base {
  constructor(private side: number) { super('square', 2); }
  area(): number { return this.side ** 2; }
}
export function pair<T>(a: T, b: T): Pair<T> { return [a, b]; }
