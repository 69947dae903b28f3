/** Where a receiver is, and its credentials: from the configuration and from its Secret. No message has a value of these. */
import type { Receiver } from '@brupop/shared/api/config-notifications';
import { messageOf } from '@brupop/shared/runtime/errors';
import { headersFrom } from '@brupop/shared/runtime/http-credentials';
import type { HttpCall } from '@brupop/shared/runtime/http-call';

/** Why an attempt failed, for metrics. */
const FAILURE_REASONS = [
  'Secret',
  'Address',
  'Timeout',
  'Unreachable',
  'TLS',
  'Proxy',
  'Redirected',
  'Refused',
  'ServerError',
  'Response',
  'Unknown',
] as const;
export type FailureReason = (typeof FAILURE_REASONS)[number];

export class DeliveryError extends Error {
  override readonly name = 'DeliveryError';
  readonly reason: FailureReason;
  /** Sending the same again is useless. */
  readonly isFinal: boolean;
  /** As the server asks for, milliseconds. */
  readonly retryAfterMs: number;

  constructor(reason: FailureReason, message: string, { isFinal = false, retryAfterMs = 0 } = {}) {
    super(message);
    this.reason = reason;
    this.isFinal = isFinal;
    this.retryAfterMs = retryAfterMs;
  }
}

export type Target = Pick<HttpCall, 'address' | 'headers' | 'ca'>;
/** The keys of a Secret, decoded. */
export type SecretData = Readonly<Partial<Record<string, string>>>;

interface Places {
  /** Of the operator. */
  readonly namespace: string;
  /** Names of Secrets that this process may read. */
  readonly secrets: readonly string[];
}

/** What an address and its credentials are found from: of a receiver, or of an Alertmanager. */
export type Addressed = Pick<Receiver, 'address' | 'secretName' | 'allowHTTP'> & Partial<Pick<Receiver, 'format'>>;

/** Throws DeliveryError if this Secret may not be read. Returns its name, or undefined if there is none. */
export function secretOf({ secretName }: Pick<Addressed, 'secretName'>, { secrets }: Places): string | undefined {
  if (secretName === undefined || secrets.includes(secretName)) return secretName;
  const message =
    `Secret "${secretName}": the chart's value notifications.secrets does not name it, which grants the right to read it. ` +
    'Add it there, and run helm upgrade';
  throw new DeliveryError('Secret', message);
}

/**
 * Throws DeliveryError that says what is expected.
 * @param data - undefined: the receiver has no Secret, or it does not exist
 */
export function targetOf(
  receiver: Addressed,
  data: SecretData | undefined,
  { namespace }: Pick<Places, 'namespace'>,
): Target {
  const { secretName, allowHTTP } = receiver;
  const which = `Secret "${secretName ?? ''}" in the namespace ${namespace}`;
  if (secretName !== undefined && data === undefined) {
    const message = `${which}: it does not exist. Create it, with the key address`;
    throw new DeliveryError('Secret', message);
  }
  const { text, where } = addressOf(receiver, data, which);
  const problem = problemOf(text, allowHTTP);
  if (problem !== undefined) throw new DeliveryError('Address', `${where}: ${problem}`);
  const ca = data?.['ca.crt'];
  return { address: text, headers: headers(data ?? {}, which), ...(ca !== undefined && { ca }) };
}

const CREDENTIALS = ['token', 'username', 'password', 'headers'];

interface Address {
  readonly text: string;
  /** For messages. */
  readonly where: string;
}

function addressOf({ address: open, format }: Addressed, data: SecretData | undefined, which: string): Address {
  const secret = data?.['address'];
  // Anyone who may edit the configuration could have them sent to another address.
  if (secret === undefined && CREDENTIALS.some((key) => data?.[key] !== undefined)) {
    const found = `${which}: expected the key address beside credentials, which are sent to no other address, found no such key`;
    throw new DeliveryError('Secret', found);
  }
  if (secret === undefined && (open === undefined || format === 'Slack')) {
    const found = `${which}: expected the key address with the address, found no such key`;
    throw new DeliveryError('Secret', found);
  }
  if (secret === undefined) return { text: open ?? '', where: 'address' };
  if (open === undefined) return { text: secret, where: `${which}, key address` };
  const both = `expected one address, found one in the configuration and one in ${which}. Remove one`;
  throw new DeliveryError('Address', both);
}

const EXPECTED = 'expected an address such as https://events.example.com/brupop, without a user and a password';

/** The address itself is not quoted. */
function problemOf(address: string, allowHTTP: boolean): string | undefined {
  const url = URL.parse(address);
  if (url === null) return `${EXPECTED}, found another text`;
  if (url.username !== '' || url.password !== '') return `${EXPECTED}, found one with these`;
  if (url.protocol === 'https:' || (url.protocol === 'http:' && allowHTTP)) return undefined;
  return url.protocol === 'http:'
    ? `${EXPECTED}, found http, which allowHTTP does not allow`
    : `${EXPECTED}, found another scheme`;
}

function headers(data: SecretData, which: string): Target['headers'] {
  try {
    return headersFrom(data);
  } catch (error) {
    throw new DeliveryError('Secret', `${which}: ${messageOf(error)}`);
  }
}

/** Of a Secret as the API server returns it. Values that are no text of Base64 are read as far as they are. */
export function secretData({ data }: { readonly data?: Readonly<Record<string, string>> }): SecretData {
  const keys = Object.entries(data ?? {});
  return Object.fromEntries(keys.map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8').trim()]));
}
