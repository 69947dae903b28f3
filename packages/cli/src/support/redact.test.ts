import { Redaction } from './redact.ts';

const TOKEN = `eyJhbGciOiJSUzI1NiJ9.${'a'.repeat(30)}.${'b'.repeat(30)}`;

it.each([
  [`the token ${TOKEN} was refused`, 'the token <redacted token> was refused'],
  ['Authorization: Bearer abcdefghijkl', 'Authorization: <redacted> <redacted>'],
  ['GET https://user:pass-word@host/path', 'GET https://<redacted>@host/path'],
  ['{"password":"hunter22","user":"me"}', '{"password":"<redacted>","user":"me"}'],
  ['AKIAABCDEFGHIJKLMNOP', '<redacted key>'],
  ['-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nmore', '<redacted private key>\nmore'],
  ['the node node-a waits: secretName is missing', 'the node node-a waits: secretName is missing'],
])('of the text %j, what looks like a credential is replaced', (text, expected) => {
  expect(new Redaction().text(text)).toBe(expected);
});

it('keeps no value of an environment variable, and references to Secrets as they are', () => {
  const redaction = new Redaction();
  const reference = { name: 'B', valueFrom: { secretKeyRef: { name: 'credentials', key: 'k' } } };
  expect(redaction.object({ containers: [{ env: [{ name: 'A', value: 'x' }, reference] }] })).toEqual({
    containers: [{ env: [{ name: 'A', value: '<redacted>' }, reference] }],
  });
  expect(redaction.counts.environment).toBe(1);
});

it('keeps annotations of the operator, and only the names of others', () => {
  const annotations = {
    'brupop.bottlerocket.aws/record': '{}',
    'kubectl.kubernetes.io/last-applied-configuration': '{"a":1}',
    'evil-brupop.bottlerocket.aws.example/x': 'y',
  };
  expect(new Redaction().object({ metadata: { annotations, managedFields: [{ manager: 'm' }] } })).toEqual({
    metadata: {
      annotations: {
        'brupop.bottlerocket.aws/record': '{}',
        'kubectl.kubernetes.io/last-applied-configuration': '<redacted>',
        'evil-brupop.bottlerocket.aws.example/x': '<redacted>',
      },
      managedFields: [{ manager: 'm' }],
    },
  });
});

it('replaces names of nodes and addresses, the same ones by the same, if asked for', () => {
  const redaction = new Redaction(['ip-10-0-0-1.ec2.internal', 'ip-10-0-0-2.ec2.internal']);
  const text = 'ip-10-0-0-2.ec2.internal (10.0.0.2, fd00::2), brs-ip-10-0-0-2.ec2.internal; ip-10-0-0-1 at 10.0.0.2.';
  expect(redaction.text(text)).toBe('node-2 (address-1, address-2), brs-node-2; node-1 at address-1.');
  expect(redaction.text('version 1.21.0 at 12:30:05')).toBe('version 1.21.0 at 12:30:05');
  expect(redaction.text('ip-10-0-0-1.ec2.internal.18ec4463a9b080f7')).toBe('node-1.18ec4463a9b080f7');
  expect(redaction.object({ 'ip-10-0-0-1': 1 })).toEqual({ 'node-1': 1 });
});

it('finds a token in the middle of a word', () => {
  const text = `id-eyJ-${TOKEN}; .${TOKEN}.${TOKEN}`;
  expect(new Redaction().text(text)).toBe('id-<redacted token>; .<redacted token>.<redacted token>');
});

it.each([
  ['starts of tokens', 'eyJ-'.repeat(50_000)],
  ['parts of names', 'a.'.repeat(250_000)],
])('takes no long time for a condition whose message, which its kubelet writes, has many %s', (_, message) => {
  const startedAt = performance.now();
  expect(new Redaction(['a-node']).object({ message })).toEqual({ message });
  expect(performance.now() - startedAt).toBeLessThan(10_000);
});

it('ends at objects that are too deep', () => {
  let deep: unknown = 'x';
  for (let level = 0; level < 10_000; level += 1) deep = { deep };
  expect(JSON.stringify(new Redaction().object(deep))).toContain('<redacted>');
});
