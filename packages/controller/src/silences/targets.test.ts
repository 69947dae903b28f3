import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { DeliveryError, type Target } from '../notify/target.ts';
import { silenceSettings } from '../testing/silences.ts';
import { Targets, targetsOf } from './targets.ts';

const [A, B] = ['http://a.example.com', 'http://b.example.com'];
const SECRET = { addresses: [], secretName: 'am' } as const;

describe('the addresses', () => {
  const find = (changes: object, data?: Readonly<Record<string, string>>): Target[] =>
    targetsOf(silenceSettings({ addresses: [A, B], ...changes }), data, 'brupop');

  it('are those of the configuration, without credentials', () => {
    expect(find({})).toEqual([A, B].map((address) => ({ address, headers: {} })));
  });

  it('may have an authority from the Secret', () => {
    expect(find({ secretName: 'am' }, { 'ca.crt': 'PEM' }).map(({ ca }) => ca)).toEqual(['PEM', 'PEM']);
  });

  it('may be in the Secret, one a line, with credentials for each', () => {
    const headers = { authorization: 'Bearer x' };
    expect(find(SECRET, { address: `${A}\n\n  ${B}  `, token: 'x' })).toEqual([
      { address: A, headers },
      { address: B, headers },
    ]);
  });

  const wrong: Record<string, [changes: object, data: Readonly<Record<string, string>> | undefined, message: string]> =
    {
      'of the configuration get no credentials': [
        { secretName: 'am' },
        { token: 'hidden' },
        'expected the key address',
      ],
      'are in one place': [{ secretName: 'am' }, { address: 'http://hidden' }, 'expected one address'],
      'are in the Secret if they are nowhere else': [SECRET, {}, 'expected the key address'],
      'need a Secret that exists': [SECRET, undefined, 'it does not exist'],
      'with http have to be allowed': [{ allowHTTP: false }, undefined, 'found http, which allowHTTP does not allow'],
      'are addresses on each line': [SECRET, { address: `${A}\nhidden` }, 'expected an address such as'],
    };
  it.each(Object.entries(wrong))('%s', (_, [changes, data, message]) => {
    expect(() => find(changes, data)).toThrow(DeliveryError);
    expect(() => find(changes, data)).toThrow(message);
    expect(() => find(changes, data)).not.toThrow('hidden');
  });
});

describe('the members', () => {
  const settings = silenceSettings({ addresses: [A, B] });
  const signal = new AbortController().signal;
  const clock = new FakeClock();
  let reads = 0;
  let secret: Record<string, string> = {};
  const make = (): Targets =>
    new Targets({
      client: {
        find: async () => {
          reads += 1;
          const entries = Object.entries(secret);
          const data = Object.fromEntries(entries.map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
          return { data } as never;
        },
      },
      clock,
      namespace: 'brupop',
      secrets: ['am'],
      proxies: { http: '', https: '', no: '' },
      isLeading: () => true,
    });
  /** Tries all but those that work. */
  const tried = async (targets: Targets, works: readonly string[]): Promise<string[]> => {
    const all: string[] = [];
    await targets.withAny(settings, signal, async ({ address }) => {
      all.push(address);
      if (!works.includes(address)) throw new DeliveryError('Unreachable', 'it is down');
    });
    return all;
  };

  it('are tried in turn until one works, which is the first one the next time', async () => {
    const targets = make();
    expect(await tried(targets, [A, B])).toEqual([A]);
    expect(await tried(targets, [B])).toEqual([A, B]);
    expect(await tried(targets, [A, B])).toEqual([B]);
    expect(await tried(targets, [A])).toEqual([B, A]);
  });

  it('that all fail are named by their numbers', async () => {
    const error: unknown = await tried(make(), []).catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      reason: 'Unreachable',
      message: 'address 1 of 2: it is down; address 2 of 2: it is down',
    });
  });

  it('are not tried after an error that is none of theirs', async () => {
    const bug = new Error('a mistake of this program');
    const work = async (): Promise<never> => {
      throw bug;
    };
    await expect(make().withAny(settings, signal, work)).rejects.toBe(bug);
  });

  it('are read from the Secret once in a minute, and after a failure', async () => {
    secret = { address: A };
    reads = 0;
    const targets = make();
    const hidden = silenceSettings(SECRET);
    const ask = async (fails = false): Promise<void> =>
      await targets
        .withAny(hidden, signal, async () => {
          if (fails) throw new DeliveryError('Unreachable', '');
        })
        .catch(() => undefined);
    await ask();
    await ask();
    expect(reads).toBe(1);
    await clock.advance(60_000);
    await ask();
    expect(reads).toBe(2);
    await ask(true);
    await ask();
    expect(reads).toBe(3);
  });
});
