/** What reaches the host, and what is seen of it, of settings that hold secrets. */
import { secretHash } from '@brupop/shared/api/secret-settings';
import type { Classified, Leaves } from '@brupop/shared/api/settings';
import { FakeHost } from '../testing/fake-host.ts';
import { HostError } from './host.ts';
import { SecretHost } from './secret-host.ts';

const KEY = 'settings.aws.credentials';
const MOTD = 'settings.motd';
const [OLD, NEW] = ['"old-secret"', '"new-secret"'];
const [OLD_HASH, NEW_HASH] = [secretHash(KEY, OLD), secretHash(KEY, NEW)];
const { signal } = new AbortController();

function made(secrets: Leaves = new Map([[KEY, NEW]])) {
  const raw = new FakeHost('1.26.0');
  let fetched = 0;
  const host = new SecretHost(raw, async () => {
    fetched += 1;
    return secrets;
  });
  return { raw, host, fetched: () => fetched };
}

async function messageOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'no error',
    (error: Error) => error.message,
  );
}

it('shows a hash of a secret and the value of any other setting', async () => {
  const { raw, host } = made();
  raw.setSettings(
    new Map([
      [KEY, OLD],
      [MOTD, '"hello"'],
    ]),
  );
  const live = await host.settings([KEY, MOTD], signal);
  expect([...live]).toEqual([
    [KEY, OLD_HASH],
    [MOTD, '"hello"'],
  ]);
});

it('sets the value that the apiserver has for a hash, and asks for it once', async () => {
  const { raw, host, fetched } = made();
  await host.classify(new Map([[KEY, NEW_HASH]]), signal);
  await host.changeSettings(new Map([[KEY, NEW_HASH]]), signal);
  expect(raw.valueOf(KEY)).toBe(NEW);
  expect(fetched()).toBe(1);
});

it('sets a value again that the host has had before, without the apiserver', async () => {
  const { raw, host, fetched } = made();
  raw.setSettings(new Map([[KEY, OLD]]));
  await host.settings([KEY], signal);
  raw.setSettings(new Map([[KEY, NEW]]));
  expect(host.canSet(KEY, OLD_HASH)).toBe(true);
  await host.changeSettings(new Map([[KEY, OLD_HASH]]), signal);
  expect(raw.valueOf(KEY)).toBe(OLD);
  expect(fetched()).toBe(0);
});

it('sets nothing while the apiserver has another value than was asked for', async () => {
  const { raw, host } = made(new Map([[KEY, OLD]]));
  await expect(host.changeSettings(new Map([[KEY, NEW_HASH]]), signal)).rejects.toThrow(
    `${KEY}: the apiserver has another value of this secret`,
  );
  expect(raw.calls).toEqual([]);
});

it('sends a hash as the value of another setting as it is', async () => {
  const { raw, host } = made();
  raw.setSettings(new Map([[KEY, OLD]]));
  await host.settings([KEY], signal);
  await host.classify(new Map([[MOTD, OLD_HASH]]), signal);
  await host.changeSettings(new Map([[MOTD, OLD_HASH]]), signal);
  expect(raw.valueOf(MOTD)).toBe(OLD_HASH);
});

it('refuses a secret that is requested by its value, and never sends it', async () => {
  const { raw, host } = made();
  const asked: Leaves[] = [];
  raw.classify = async (changes) => {
    asked.push(changes);
    return new Map([[MOTD, { class: 'Live', reason: 'fine' }]]);
  };
  const plain = new Map([
    [KEY, OLD],
    [MOTD, '"hello"'],
  ]);
  const found = await host.classify(plain, signal);
  expect(found.get(KEY)).toMatchObject({ class: 'Refused' });
  expect(found.get(KEY)?.reason).toContain('secretSettings');
  expect(found.get(MOTD)?.class).toBe('Live');
  expect(asked.map((changes) => [...changes.keys()])).toEqual([[MOTD]]);
  await expect(host.changeSettings(plain, signal)).rejects.toThrow(KEY);
});

it('withholds what a host says of a refused secret', async () => {
  const { raw, host } = made();
  const refused: Classified = { class: 'Refused', reason: `PATCH /settings: 400 Invalid value ${NEW}` };
  raw.classify = async () => new Map([[KEY, refused]]);
  const found = await host.classify(new Map([[KEY, NEW_HASH]]), signal);
  expect(found.get(KEY)?.reason).toBe('PATCH /settings: 400 the answer is withheld, since it may repeat a secret');
});

it.each(['PATCH /settings: 400 Invalid value "new-secret"', 'GET /settings: body: expected JSON, found "new-secret"'])(
  'withholds the text of an error: %s',
  async (text) => {
    const { raw, host } = made();
    raw.failCall('configure', new HostError('answer', text, { cause: new Error(text) }));
    raw.failCall('settings', new HostError('answer', text, { cause: new Error(text) }));
    for (const error of [host.changeSettings(new Map([[KEY, NEW_HASH]]), signal), host.settings([KEY], signal)]) {
      const message = await messageOf(error);
      expect(message).toMatch(/^(?:PATCH|GET) \/settings: /u);
      expect(message).not.toContain('secret-');
      expect(message).not.toContain('new-secret');
    }
  },
);

it.each(['locked', 'unset', 'unreadable'] as const)('withholds the text of a host that is %s', async (kind) => {
  const { raw, host } = made();
  raw.failCall('classify', new HostError(kind, 'PATCH /settings: 423 new-secret'));
  expect(await messageOf(host.classify(new Map([[KEY, NEW_HASH]]), signal))).not.toContain('new-secret');
});

it('keeps the text of an error about other settings', async () => {
  const { raw, host } = made();
  raw.failCall('configure', new HostError('answer', 'PATCH /settings: 400 unknown field'));
  await expect(host.changeSettings(new Map([[MOTD, '"a"']]), signal)).rejects.toThrow('unknown field');
});

it('keeps what it is asked for, however many other values the host has had', async () => {
  const { raw, host } = made();
  raw.setSettings(new Map([[KEY, OLD]]));
  await host.settings([KEY], signal);
  for (let i = 0; i < 500; i += 1) {
    raw.setSettings(new Map([[KEY, `"${i}"`]]));
    await host.settings([KEY], signal);
    expect(host.canSet(KEY, OLD_HASH)).toBe(true);
  }
});

it('keeps a bounded number of values', async () => {
  const { raw, host } = made();
  raw.setSettings(new Map([[KEY, OLD]]));
  await host.settings([KEY], signal);
  for (let i = 0; i < 200; i += 1) {
    raw.setSettings(new Map([[KEY, `"${i}"`]]));
    await host.settings([KEY], signal);
  }
  expect(host.canSet(KEY, OLD_HASH)).toBe(false);
  expect(host.canSet(KEY, secretHash(KEY, '"0"'))).toBe(true);
});
