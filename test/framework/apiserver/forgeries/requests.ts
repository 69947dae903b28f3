import fc from 'fast-check';
import { type Attempt, type Forgery, outcomes, type World } from './forgery.ts';

const noisy = Array.from('abcXYZ019._- =/+"\'%');

const line = (text: string): Attempt => ({ headers: `${text}\r\n` });

/** Valid tokens in the wrong place, and headers that no server should read. */
export function requestForgeries({ victim: { token } }: World): Forgery[] {
  const badRequest = { status: 400, code: 'BadRequest', reviews: 0 };
  const noise = fc.string({ minLength: 1, maxLength: 40, unit: fc.constantFrom(...noisy) });
  return [
    {
      name: 'no bearer token',
      attempts: fc.oneof(fc.constantFrom(...schemes(token)), noise).map((text) => line(`authorization: ${text}`)),
      ...outcomes.refused,
    },
    { name: 'a token elsewhere', attempts: fc.constantFrom(...elsewhere(token)), ...outcomes.refused },
    {
      name: 'two Authorization headers',
      attempts: fc.tuple(fc.constantFrom('', `Bearer ${token}`, 'Bearer a.b.c'), fc.boolean()).map(several(token)),
      ...badRequest,
    },
    {
      name: 'a long token',
      attempts: fc
        .integer({ min: 4_097, max: 7_500 })
        .map((length) => line(`authorization: Bearer ${token}${'A'.repeat(length - token.length)}`)),
      ...outcomes.refused,
    },
    {
      name: 'more than 8 KiB of headers',
      attempts: fc
        .tuple(fc.integer({ min: 8_192, max: 100_000 }), fc.boolean())
        .map(([length, inToken]) =>
          line(
            inToken
              ? `authorization: Bearer ${token}${'A'.repeat(length)}`
              : `authorization: Bearer ${token}\r\nfiller: ${'x'.repeat(length)}`,
          ),
        ),
      status: 431,
      code: 'TooLarge',
      reviews: 0,
    },
    { name: 'malformed headers', attempts: fc.constantFrom(...malformed(token)), ...badRequest },
  ];
}

function schemes(token: string): string[] {
  return [
    '',
    'Bearer',
    'Bearer ',
    `Bearer:${token}`,
    `Bearer: ${token}`,
    `Bearer${token}`,
    `Bearer\t${token}`,
    `Bearer "${token}"`,
    `Bearer ${token},`,
    `Bearer ${token}, Bearer ${token}`,
    `Bearer Bearer ${token}`,
    `Bearer ${token} x`,
    `Bearer\u00a0${token}`,
    `Token ${token}`,
    `Basic ${Buffer.from(`x:${token}`).toString('base64').slice(0, 800)}`,
    `Negotiate ${token}`,
    `Bearer token=${token}`,
    `Bearer ${token.replaceAll('.', '%2E')}`,
    token,
  ];
}

function elsewhere(token: string): Attempt[] {
  return [
    line(`proxy-authorization: Bearer ${token}`),
    line(`x-authorization: Bearer ${token}`),
    line(`x-forwarded-user: system:serviceaccount:x:brupop-agent`),
    line(`x-remote-user: system:admin\r\nx-remote-group: system:masters`),
    line(`cookie: token=${token}`),
    line(`sec-websocket-protocol: base64url.bearer.authorization.k8s.io.${token}`),
    { headers: '', query: `?access_token=${token}` },
    { headers: '', query: `?authorization=Bearer%20${token}` },
  ];
}

const several =
  (token: string) =>
  ([other, first]: [string, boolean]): Attempt => {
    const [one, two] = first ? [other, `Bearer ${token}`] : [`Bearer ${token}`, other];
    return line(`authorization: ${one}\r\nAuthorization: ${two}`);
  };

function malformed(token: string): Attempt[] {
  const authorization = `authorization: Bearer ${token}`;
  return [
    `authorization : Bearer ${token}`,
    ` ${authorization}`,
    `authorization: Bearer\r\n ${token}`,
    `${authorization}\u0000`,
    `${authorization}\u0001x`,
    `${authorization}\rx: y`,
    `${authorization}\r\n: x`,
    `${authorization}\r\nno colon`,
    `${authorization}\r\nx\u0000: y`,
    `${authorization}\r\ncontent-length: -1`,
    `${authorization}\r\ncontent-length: 5\r\ncontent-length: 6`,
    `${authorization}\r\ntransfer-encoding: chunked\r\ncontent-length: 5`,
    `${authorization}\r\ntransfer-encoding: x, chunked, y`,
  ].map(line);
}
