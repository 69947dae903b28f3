import type { TextRequest } from '../cluster/client.ts';
import { resume } from './change.ts';
import type { Context } from './context.ts';

const SERVER_TIME = 1_796_000_000_000;

it.each([
  ['slow', SERVER_TIME - 3_600_000],
  ['fast', SERVER_TIME + 3_600_000],
])('failures are accepted up to the time of the API server, although the clock of the user is %s', async (_, now) => {
  const requests: TextRequest[] = [];
  const printed: string[] = [];
  const client: Partial<Context['client']> = {
    time: async () => await Promise.resolve(SERVER_TIME),
    request: async <T>(request: TextRequest) => {
      requests.push(request);
      return await Promise.resolve({ spec: {} } as T);
    },
  };
  const context = {
    client,
    clock: { now: () => now },
    screen: { width: 200 },
    print: (text: string) => printed.push(text),
  };
  await resume(context as unknown as Context, { failures: true });
  expect(requests.map(({ body }) => body)).toEqual([{ spec: { rollout: { resume: '2026-11-30T00:53:20Z' } } }]);
  expect(printed.join('')).toContain('Failures of the fleet up to 2026-11-30T00:53:20Z are accepted');
});
