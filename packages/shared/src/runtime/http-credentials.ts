/** What requests to HTTP APIs outside of the cluster's own have in common: credentials from a Secret, and limited bodies. */

/** The keys of a Secret. */
export const CREDENTIAL_KEYS = ['token', 'username', 'password', 'headers', 'ca.crt'] as const;
export type Credentials = Readonly<Partial<Record<(typeof CREDENTIAL_KEYS)[number], string>>>;

/** Throws an error that names what is wrong in them, and no value. */
export function headersFrom({
  token,
  username,
  password,
  headers = '',
}: Credentials): Readonly<Record<string, string>> {
  if (token !== undefined && username !== undefined)
    throw new Error('the Secret of the credentials: expected token, or username and password, found both');
  if ((username === undefined) !== (password === undefined))
    throw new Error('the Secret of the credentials: expected both username and password, found one of them');
  const basic = Buffer.from(`${username ?? ''}:${password ?? ''}`).toString('base64');
  return {
    ...headersIn(headers),
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(username !== undefined && { authorization: `Basic ${basic}` }),
  };
}

function headersIn(text: string): Readonly<Record<string, string>> {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return Object.fromEntries(
    lines.map((line, index) => {
      const [, name, value] = /^([\w-]{1,100}):\s*(\S.*?)\s*$/u.exec(line) ?? [];
      if (name !== undefined && value !== undefined) return [name.toLowerCase(), value];
      throw new Error(`the key headers of the Secret, line ${index + 1}: expected Name: value, found something else`);
    }),
  );
}

/** Throws what `refuse` returns when the body is larger than `maxBytes`; it is not read any further. */
export async function readText(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  refuse: (message: string) => Error = (message) => new Error(message),
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) throw refuse(`expected at most ${maxBytes} bytes, found more`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
