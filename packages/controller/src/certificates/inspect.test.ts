import { tlsHandshake } from '../testing/tls-handshake.ts';
import { writeFor } from './contents.ts';
import { decide, works } from './decide.ts';
import { type DataObject, inspect, type Objects, serverNames } from './inspect.ts';
import { BUNDLE_ANNOTATION, CA_KEY } from './keys.ts';

const NAMESPACE = 'a-namespace-with-a-name-of-the-greatest-length-that-there-can-be';
const LABELS = { 'app.kubernetes.io/managed-by': 'brupop-controller' };
// Certificates have whole seconds.
const NOW = Math.floor(performance.timeOrigin / 1000) * 1000;

/** What the issuer writes where there was nothing. */
async function install(namespace = NAMESPACE, now = NOW): Promise<Objects> {
  let objects: Objects = { authorities: undefined, bundle: undefined, serving: undefined };
  for (;;) {
    const found = inspect(objects, namespace);
    const { step } = decide(found, now);
    if (step === undefined) return objects;
    const { object, contents } = await writeFor(step, found, namespace, now);
    const metadata = { name: object, labels: LABELS, annotations: contents.annotations };
    objects = { ...objects, [object]: { metadata, data: contents.data } };
  }
}

const text = (object: DataObject | undefined, key: string): string =>
  Buffer.from(object?.data?.[key] ?? '', 'base64').toString();

function withData(object: DataObject | undefined, data: Record<string, string>): DataObject {
  return { metadata: { name: '', labels: LABELS }, ...object, data: { ...object?.data, ...data } };
}

/** The protocol between a server with the Secret and a client with the bundle. */
async function handshake({ serving, bundle }: Objects, name: string): Promise<string | null> {
  const [cert, key] = [text(serving, 'tls.crt'), text(serving, 'tls.key')];
  return await tlsHandshake({ cert, key, ca: bundle?.data?.[CA_KEY] ?? '', name });
}

let objects: Objects;
beforeAll(async () => {
  objects = await install();
});

describe('what is issued', () => {
  it.each(serverNames(NAMESPACE))('serves TLS 1.3 as %s to clients with the bundle', async (name) => {
    expect(await handshake(objects, name)).toBe('TLSv1.3');
  });

  it('is not accepted for another name', async () => {
    await expect(handshake(objects, 'kubernetes.default.svc')).rejects.toThrow("does not match certificate's altnames");
  });

  it('is found again as it was written', () => {
    const found = inspect(objects, NAMESPACE);
    const fingerprint = found.authorities.current?.fingerprint;
    expect(found).toMatchObject({
      authorities: { owner: 'operator' },
      bundle: {
        isIntact: true,
        entries: [{ certificate: { fingerprint }, publishedAt: NOW }],
      },
      serving: { certificate: { signers: [fingerprint], hasNames: true }, authorities: [{ fingerprint }] },
    });
    expect([works(found, NOW), decide(found, NOW)]).toEqual([true, {}]);
  });

  it('cannot be used for the names of another namespace, even if its key is stolen', async () => {
    const { issueCertificate } = await import('./issue.ts');
    const { current } = inspect(objects, NAMESPACE).authorities;
    if (current === undefined) throw new Error('no authority');
    const { pem, key } = await issueCertificate('kube-system', current, NOW);
    const base64 = (value: string): string => Buffer.from(value).toString('base64');
    const serving = withData(objects.serving, { 'tls.crt': base64(pem), 'tls.key': base64(key) });
    await expect(handshake({ ...objects, serving }, serverNames('kube-system')[0])).rejects.toThrow(
      /permitted subtree violation/,
    );
  });
});

describe('a damaged object', () => {
  const other = install(NAMESPACE);

  it.each<[string, (all: Objects, others: Objects) => Objects, string]>([
    [
      'a certificate without its key',
      (all) => ({ ...all, serving: withData(all.serving, { 'tls.key': '' }) }),
      'the Secret has no usable certificate',
    ],
    [
      'the key of another certificate',
      (all, others) => ({
        ...all,
        serving: withData(all.serving, { 'tls.key': others.serving?.data?.['tls.key'] ?? '' }),
      }),
      'the Secret has no usable certificate',
    ],
    [
      'text instead of a certificate',
      (all) => ({ ...all, serving: withData(all.serving, { 'tls.crt': 'bm9uZQ==' }) }),
      'the Secret has no usable certificate',
    ],
    [
      'data that is not base64',
      (all) => ({ ...all, serving: withData(all.serving, { 'tls.crt': '%%%' }) }),
      'the Secret has no usable certificate',
    ],
    [
      'a certificate of an unknown authority',
      (all, others) => ({ ...all, serving: withData(others.serving, { 'ca.crt': '' }) }),
      'its authority has been replaced',
    ],
    [
      'an authority without its key',
      (all) => ({ ...all, authorities: withData(all.authorities, { 'ca.key': '' }) }),
      'the Secret has no usable authority',
    ],
    [
      'a serving certificate as authority',
      (all) => ({
        ...all,
        authorities: withData(all.authorities, {
          'ca.crt': all.serving?.data?.['tls.crt'] ?? '',
          'ca.key': all.serving?.data?.['tls.key'] ?? '',
        }),
      }),
      'the Secret has no usable authority',
    ],
    ['no data at all', (all) => ({ ...all, bundle: { metadata: { name: '', labels: LABELS } } }), 'the bundle'],
    ['a cut bundle', (all) => ({ ...all, bundle: withData(all.bundle, { 'ca.crt': '-----BEGIN' }) }), 'the bundle'],
    [
      'a bundle with other text',
      (all) => ({ ...all, bundle: withData(all.bundle, { 'ca.crt': `${all.bundle?.data?.['ca.crt']}\nx` }) }),
      'the bundle',
    ],
    [
      'an annotation that is not JSON',
      ({ bundle, ...rest }) => ({
        ...rest,
        bundle: { ...bundle, metadata: { name: '', labels: LABELS, annotations: { [BUNDLE_ANNOTATION]: '{' } } },
      }),
      'the authorities in use have changed',
    ],
  ])('with %s is repaired', async (_, damage, why) => {
    const damaged = damage(objects, await other);
    expect(decide(inspect(damaged, NAMESPACE), NOW).step?.why).toContain(why);
  });
});

it('objects from another namespace are replaced', async () => {
  const elsewhere = await install('elsewhere');
  expect(decide(inspect(elsewhere, NAMESPACE), NOW)).toMatchObject({ step: { do: 'createAuthority', as: 'current' } });
});
