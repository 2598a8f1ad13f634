// A whole script in TypeScript: an API client as a class, typed options, retries.
//
// area: whole scripts
// covers: API client class; retries; typed options
import http, { RefinedResponse, ResponseType } from 'k6/http';
import { check, sleep } from 'k6';
import { Options } from 'k6/options';
import { Counter } from 'k6/metrics';

const retries = new Counter('retries');
export const options: Options = { scenarios: { main: {
  executor: 'per-vu-iterations', vus: 1, iterations: 2,
} }, thresholds: { retries: ['count==4'] } };

interface Call { method: 'GET' | 'POST'; path: string; body?: Record<string, unknown> }
class Client {
  private readonly base: string;
  constructor(base: string, private readonly limit = 3) { this.base = base; }
  send<T = unknown>({ method, path, body }: Call): { status: number; value?: T } {
    let res: RefinedResponse<ResponseType | undefined> | undefined;
    for (let attempt = 0; attempt < this.limit; attempt++) {
      res = http.request(
        method, this.base + path, body ? JSON.stringify(body) : null,
        { headers: { 'Content-Type': 'application/json' } }
      );
      if (res.status < 500) break;
      if (attempt + 1 < this.limit) { retries.add(1); sleep(0.01); }
    }
    return {
      status: res!.status, value: res!.status === 200 ? (res!.json() as unknown as T) : undefined,
    };
  }
}
export default (): void => {
  const client = new Client(__ENV.BASE);
  const user = client.send<{ user: { name: string } }>({ method: 'GET', path: '/json' });
  check(user, { 'is Ada': (u) => u.value?.user.name === 'Ada' });
  check(
    client.send({ method: 'GET', path: '/status/503' }),
    { 'gave up': ({ status }) => status === 503 }
  );
  const sent = client.send<{ body: string }>({
    method: 'POST', path: '/echo', body: { a: [1, 2] },
  });
  console.log('RESULT sent ' + sent.value?.body);
};
