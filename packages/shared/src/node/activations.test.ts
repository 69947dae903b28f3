import { ACTIVATED_ANNOTATION } from '../api/names.ts';
import type { LastOperation } from '../api/shadow.ts';
import { activationOf, type NodeOfActivations, readActivations, rememberActivation } from './activations.ts';

const node = (text?: string): NodeOfActivations => ({
  metadata: text === undefined ? {} : { annotations: { [ACTIVATED_ANNOTATION]: text } },
});
const remembered = (
  text: string | undefined,
  version: string,
  bootID: string,
  running = '1.20.0',
): string | undefined =>
  rememberActivation(node(text), { version, bootID, shadowUID: 'u' }, running)?.[ACTIVATED_ANNOTATION];
const step = (parts: Partial<LastOperation>): LastOperation => ({
  operation: 'Activate',
  state: 'Processing',
  version: '1.21.0',
  bootID: 'b1',
  startTime: '2026-01-01T00:00:00Z',
  lastUpdateTime: '2026-01-01T00:00:00Z',
  ...parts,
});

describe('the activations that a Node remembers', () => {
  it('are read in their order', () => {
    expect(readActivations(node('1.21.0@b1@u,1.22.0-rc.1+x@b2@u'))).toEqual([
      { version: '1.21.0', bootID: 'b1', shadowUID: 'u' },
      { version: '1.22.0-rc.1+x', bootID: 'b2', shadowUID: 'u' },
    ]);
  });

  it.each([undefined, '', ',', '1.21.0', '1.21.0@', '@b1', '1@2@', '1@2@3@4', 'a b@c@d', `${'1'.repeat(65)}@b1@u`])(
    'are none in %p',
    (text) => expect(readActivations(node(text))).toEqual([]),
  );

  it('are written once for a version and a boot', () => {
    expect(remembered(undefined, '1.21.0', 'b1')).toBe('1.21.0@b1@u');
    expect(remembered('1.21.0@b1@u', '1.21.0', 'b1')).toBeUndefined();
    expect(remembered('1.21.0@b1@u', '1.21.0', 'b2')).toBe('1.21.0@b2@u');
  });

  it('are those of the last three versions', () => {
    expect(remembered('1.21.0@b1@u', '1.22.0', 'b2')).toBe('1.21.0@b1@u,1.22.0@b2@u');
    expect(remembered('1.21.0@b1@u,1.22.0@b2@u,1.23.0@b3@u', '1.24.0', 'b4')).toBe(
      '1.22.0@b2@u,1.23.0@b3@u,1.24.0@b4@u',
    );
  });

  it('do not keep a version that has come up', () => {
    expect(remembered('1.21.0@b1@u', '1.22.0', 'b2', '1.21.0')).toBe('1.22.0@b2@u');
  });

  it.each(['', 'a,b', 'a@b', 'x'.repeat(65)])('do not take up the version %p', (version) => {
    expect(remembered(undefined, version, 'b1')).toBeUndefined();
  });

  it('do not take up one without a boot', () => {
    expect(remembered(undefined, '1.21.0', '')).toBeUndefined();
  });
});

describe('a step of an update', () => {
  it.each(['Activate', 'Reboot'] as const)('that is %s makes an activation', (operation) => {
    expect(activationOf(step({ operation }), 'u')).toEqual({ version: '1.21.0', bootID: 'b1', shadowUID: 'u' });
  });

  it.each([undefined, step({ operation: 'Stage' }), step({ operation: 'Drain' }), step({ state: 'Failed' })])(
    'makes none when it is %j',
    (other) => expect(activationOf(other, 'u')).toBeUndefined(),
  );
});
