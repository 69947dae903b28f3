import { AGENT, TOKEN_AUDIENCE } from '@brupop/shared/api/names';
import { ApiError } from '../errors.ts';

/** An agent's bound token, as far as its signed claims tell. */
export interface AgentClaims {
  readonly podName: string;
  readonly podUID: string;
  /** Absent in tokens of Kubernetes before 1.30. */
  readonly nodeName?: string;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
}

export interface ClaimsContext {
  readonly issuer: string;
  /** Namespace of the operator. */
  readonly namespace: string;
  /** Epoch milliseconds. */
  readonly now: number;
}

/** How far the cluster's clock may be ahead of ours; the Kubernetes API allows as much. Expiry gets no such grace. */
const LEEWAY_MS = 60_000;

type Fields = Readonly<Record<string, unknown>>;

/**
 * Judges the claims of a token whose signature has been verified. Throws Failure `Unauthenticated` for a token that is not for us or not
 * for now, and `Forbidden` for one that is nobody's bound agent pod.
 */
export function checkClaims(payload: unknown, context: ClaimsContext): AgentClaims {
  const claims = fields(payload);
  if (claims['iss'] !== context.issuer) throw refused('the issuer', context.issuer, claims['iss']);
  if (!audiences(claims['aud']).includes(TOKEN_AUDIENCE)) throw refused('the audience', TOKEN_AUDIENCE, claims['aud']);
  const expiresAt = checkTimes(claims, context.now);
  const subject = `system:serviceaccount:${context.namespace}:${AGENT}`;
  if (claims['sub'] !== subject) throw forbidden(`the subject ${subject}`, show(claims['sub']));
  return { ...checkSubject(fields(claims['kubernetes.io']), context.namespace), expiresAt };
}

/** Returns the expiry in epoch milliseconds. */
function checkTimes(claims: Fields, now: number): number {
  const { exp, nbf, iat } = claims;
  if (!Number.isSafeInteger(exp) || !(Number(exp) * 1000 > now)) throw refused('the expiry', 'a time to come', exp);
  for (const [what, time] of Object.entries({ 'the start of validity': nbf, 'the time of issue': iat }))
    if (time !== undefined && !(typeof time === 'number' && time * 1000 <= now + LEEWAY_MS))
      throw refused(what, 'a time that has come', time);
  return Number(exp) * 1000;
}

function checkSubject(bound: Fields, namespace: string): Omit<AgentClaims, 'expiresAt'> {
  const account = fields(bound['serviceaccount'])['name'];
  if (bound['namespace'] !== namespace || account !== AGENT)
    throw forbidden(`service account ${namespace}/${AGENT}`, `${show(bound['namespace'])}/${show(account)}`);
  const pod = fields(bound['pod']);
  if (typeof pod['name'] !== 'string' || typeof pod['uid'] !== 'string')
    throw forbidden('a token bound to a pod', 'one that is not');
  const node = fields(bound['node'])['name'];
  return {
    podName: pod['name'],
    podUID: pod['uid'],
    ...(typeof node === 'string' ? { nodeName: node } : {}),
  };
}

function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

/** RFC 7519, 4.1.3: one text or a list of them. */
function audiences(aud: unknown): readonly unknown[] {
  return Array.isArray(aud) ? (aud as unknown[]) : [aud];
}

function show(value: unknown): string {
  return value === undefined ? 'none' : JSON.stringify(value).slice(0, 120);
}

function refused(what: string, expected: string, found: unknown): ApiError {
  return new ApiError('Unauthenticated', `${what} of the token: expected ${expected}, found ${show(found)}`);
}

function forbidden(expected: string, found: string): ApiError {
  return new ApiError('Forbidden', `only agents are served: expected ${expected}, found ${found}`);
}
