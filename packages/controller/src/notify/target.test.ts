import { aReceiver } from '../testing/notices.ts';
import { DeliveryError, secretData, type SecretData, secretOf, targetOf } from './target.ts';

const PLACES = { namespace: 'brupop', secrets: ['slack'] };
const SECRET_URL = 'https://hooks.example.com/services/T0/B0/hidden';
const withSecret = { address: undefined, secretName: 'slack' } as const;

const cases: Record<string, [receiver: object, data: SecretData | undefined, message: string]> = {
  'a Secret that does not exist': [
    withSecret,
    undefined,
    'Secret "slack" in the namespace brupop: it does not exist. Create it, with the key address',
  ],
  'a Secret without an address': [withSecret, {}, 'expected the key address with the address, found no such key'],
  'credentials for another address': [
    { secretName: 'slack' },
    { token: 'hidden' },
    'expected the key address beside credentials, which are sent to no other address',
  ],
  'two addresses': [
    { secretName: 'slack' },
    { address: SECRET_URL },
    'expected one address, found one in the configuration and one in Secret "slack"',
  ],
  'an address that is none': [
    withSecret,
    { address: 'hidden' },
    'Secret "slack" in the namespace brupop, key address: expected an address such as',
  ],
  'http that is not allowed': [
    withSecret,
    { address: 'http://hidden.example.com' },
    'found http, which allowHTTP does not allow',
  ],
  'another scheme': [withSecret, { address: 'file:///hidden' }, 'found another scheme'],
  'a user in the address': [
    withSecret,
    { address: 'https://hidden:hidden@example.com' },
    'without a user and a password, found one with these',
  ],
  'a token and a password': [
    withSecret,
    { address: SECRET_URL, token: 'hidden', username: 'u', password: 'hidden' },
    'expected token, or username and password, found both',
  ],
  'a header without a value': [withSecret, { address: SECRET_URL, headers: 'hidden' }, 'line 1: expected Name: value'],
};
test.each(Object.entries(cases))('%s is explained, and no value is quoted', (_, [changes, data, message]) => {
  const find = (): unknown => targetOf(aReceiver(changes), data, PLACES);
  expect(find).toThrow(DeliveryError);
  expect(find).toThrow(message);
  expect(find).not.toThrow('hidden');
});

test('Slack takes its address from the Secret only', () => {
  const receiver = aReceiver({ format: 'Slack', secretName: 'slack' });
  expect(() => targetOf(receiver, { token: 'x' }, PLACES)).toThrow('expected the key address');
});

test('a receiver without a Secret is at its address', () => {
  expect(targetOf(aReceiver(), undefined, PLACES)).toEqual({
    address: 'https://events.example.com/brupop',
    headers: {},
  });
});

test('the Secret has the address, the token, headers and the authority', () => {
  const encoded = { address: `${SECRET_URL}\n`, token: 'x', headers: 'X-Team: a', 'ca.crt': 'PEM' };
  const data = Object.fromEntries(
    Object.entries(encoded).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
  );
  expect(targetOf(aReceiver(withSecret), secretData({ data }), PLACES)).toEqual({
    address: SECRET_URL,
    headers: { 'x-team': 'a', authorization: 'Bearer x' },
    ca: 'PEM',
  });
});

test('http is taken where it is allowed', () => {
  const receiver = aReceiver({ address: 'http://events.monitoring.svc', allowHTTP: true });
  expect(targetOf(receiver, undefined, PLACES).address).toBe('http://events.monitoring.svc');
});

test('a Secret that the chart does not name is not asked for', () => {
  const find = (): unknown => secretOf(aReceiver({ secretName: 'brupop-ca' }), PLACES);
  expect(find).toThrow("the chart's value notifications.secrets does not name it");
  expect(secretOf(aReceiver(withSecret), PLACES)).toBe('slack');
  expect(secretOf(aReceiver(), PLACES)).toBeUndefined();
});
