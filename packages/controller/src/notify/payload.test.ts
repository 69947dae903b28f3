import { aNotice } from '../testing/notices.ts';
import { NOW } from '../testing/objects.ts';
import { bodyOf } from './payload.ts';

const json = (notice = aNotice('0a1b2c3d4e5f'), cluster?: string): unknown =>
  JSON.parse(bodyOf(notice, { format: 'JSON', cluster }, NOW));
const slack = (notice = aNotice('0a1b2c3d4e5f'), cluster?: string): string =>
  (JSON.parse(bodyOf(notice, { format: 'Slack', cluster }, NOW)) as { text: string }).text;

test('JSON has the schema of the docs', () => {
  expect(json(undefined, 'prod-eu-1')).toEqual({
    schemaVersion: 'v1',
    id: '0a1b2c3d4e5f',
    event: 'Frozen',
    severity: 'error',
    time: '2027-01-15T08:00:00Z',
    cluster: 'prod-eu-1',
    object: { kind: 'BrupopConfig', name: 'cluster' },
    version: '1.21.0',
    summary: 'Bottlerocket 1.21.0 is frozen: too many nodes failed with it',
    message: 'No update to 1.21.0 or an older version starts',
    command: 'kubectl describe brc cluster',
  });
});

test('JSON leaves out what there is not', () => {
  const { version: _, ...without } = aNotice('a');
  expect(Object.keys(json(without) as object)).not.toEqual(expect.arrayContaining(['cluster']));
  expect(json(without)).not.toHaveProperty('version');
});

test('Slack shows the object, what was found, what to do, and a command', () => {
  expect(slack(undefined, 'prod-eu-1')).toBe(
    ':rotating_light: *Bottlerocket 1.21.0 is frozen: too many nodes failed with it* in prod-eu-1\n' +
      'BrupopConfig cluster: No update to 1.21.0 or an older version starts\n' +
      '```kubectl describe brc cluster```',
  );
});

describe('a text of a tenant in Slack', () => {
  const cases: Record<string, [text: string, shown: string]> = {
    'mentions no channel': ['<!channel> look', '&lt;!channel&gt; look'],
    'mentions no user': ['<@U123>', '&lt;@\u200BU123&gt;'],
    'mentions nobody where names are enough': ['@all @here', '@\u200Ball @\u200Bhere'],
    'is no link': ['<https://evil.example.com|click>', '&lt;https:\u200B//evil.example.com|click&gt;'],
    'is not escaped twice': ['a &lt; b', 'a &amp;lt; b'],
    'ends no code block': ['a ``` b', "a ''' b"],
    'stays on one line': ['a\nb\u2028c', 'a\uFFFDb\uFFFDc'],
    'is not bold': ['*a*', '∗a∗'],
  };
  it.each(Object.entries(cases))('%s', (_, [message, shown]) => {
    expect(slack(aNotice('a', { message }))).toContain(`BrupopConfig cluster: ${shown}\n`);
  });

  it('is cut, and leaves the command whole', () => {
    const text = slack(aNotice('a', { message: '<'.repeat(100_000) }));
    expect(text.length).toBeLessThan(12_000);
    expect(text.endsWith('```kubectl describe brc cluster```')).toBe(true);
  });

  it('does not format the name of the cluster, of the object and of the command either', () => {
    const notice = aNotice('a', { object: { kind: 'Node', name: '<!here>' }, command: '```<!here>' });
    expect(slack(notice, '<!here>')).not.toContain('<');
    expect(slack(notice).split('```')).toHaveLength(3);
  });
});
