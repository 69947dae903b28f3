import { commandOf } from './command.ts';
import { type EnvironmentInputs, environmentOf } from './environment.ts';
import { imageFromDockerfile } from './image.ts';
import { NotYet, type Pod } from './pod.ts';
import { serviceEnvironment } from './service-environment.ts';

const image = imageFromDockerfile(
  `# syntax=docker/dockerfile:1
FROM node AS build
ENTRYPOINT ["build"]
RUN npm ci && \\
    npm run build
FROM gcr.io/distroless/nodejs24
ENV NODE_ENV=production GREETING="good day"
COPY --from=build /dist /app
WORKDIR /app
USER 1000
ENTRYPOINT ["node"]
CMD ["/app/help.mjs"]
`,
  { paths: new Map([['/app', '/here/dist']]), programs: { node: '/bin/node' } },
);

const pod: Pod = {
  metadata: {
    name: 'agent-x',
    namespace: 'ns',
    uid: 'uid-1',
    resourceVersion: '1',
    labels: { zone: 'a' },
    annotations: {},
  },
  spec: {
    nodeName: 'node-1',
    containers: [{ name: 'main', resources: { limits: { memory: '50Mi', cpu: '250m' } } }],
  },
};

const services = serviceEnvironment([
  {
    name: 'brupop-apiserver',
    ports: [{ name: 'https', protocol: 'TCP', address: { host: '127.0.0.1', port: 8443 } }],
  },
]);

const inputs = (env: EnvironmentInputs['container']['env'], more: object = {}): EnvironmentInputs => ({
  pod,
  container: { name: 'main', env: env ?? [], ...more },
  whereabouts: { podIP: '10.7.1.2', hostIP: '10.64.0.1' },
  services,
  object: ({ kind, name }) => {
    const metadata = { name, uid: 'u', resourceVersion: '1' };
    if (name !== 'settings') return undefined;
    return kind === 'secrets'
      ? { metadata, data: { password: btoa('s3cret') } }
      : { metadata, data: { level: 'debug' } };
  },
});
const field = (fieldPath: string): object => ({ valueFrom: { fieldRef: { fieldPath } } });

describe('the environment of a container', () => {
  test('fields of the pod, with the pod IP as its local address', () => {
    const paths = {
      NAME: 'metadata.name',
      NAMESPACE: 'metadata.namespace',
      UID: 'metadata.uid',
      ZONE: "metadata.labels['zone']",
      NONE: "metadata.annotations['none']",
      NODE: 'spec.nodeName',
      ACCOUNT: 'spec.serviceAccountName',
      IP: 'status.podIP',
      HOST: 'status.hostIP',
    };
    const env = environmentOf(inputs(Object.entries(paths).map(([name, path]) => ({ name, ...field(path) }))));
    expect(env).toMatchObject({
      NAME: 'agent-x',
      NAMESPACE: 'ns',
      UID: 'uid-1',
      ZONE: 'a',
      NONE: '',
      NODE: 'node-1',
      ACCOUNT: 'default',
      IP: '127.7.1.2',
      HOST: '10.64.0.1',
    });
  });

  test('limits in units of the divisor, rounded up', () => {
    const of = (resource: string, divisor: string): object => ({
      valueFrom: { resourceFieldRef: { resource, divisor } },
    });
    const env = environmentOf(
      inputs([
        { name: 'MEMORY', ...of('limits.memory', '1Mi') },
        { name: 'BYTES', ...of('limits.memory', '0') },
        { name: 'CPUS', ...of('limits.cpu', '1') },
        { name: 'MILLIS', ...of('limits.cpu', '1m') },
      ]),
    );
    expect(env).toMatchObject({ MEMORY: '50', BYTES: '52428800', CPUS: '1', MILLIS: '250' });
  });

  test('values see what stands before them and the Services, not what follows', () => {
    const env = environmentOf(
      inputs([
        { name: 'FIRST', value: '$(SECOND)' },
        { name: 'SECOND', value: '$(BRUPOP_APISERVER_SERVICE_HOST):$(BRUPOP_APISERVER_SERVICE_PORT_HTTPS)' },
        { name: 'THIRD', value: 'at $(SECOND)' },
      ]),
    );
    expect(env).toMatchObject({ FIRST: '$(SECOND)', SECOND: '127.0.0.1:8443', THIRD: 'at 127.0.0.1:8443' });
    expect(env).toMatchObject({
      BRUPOP_APISERVER_PORT: 'tcp://127.0.0.1:8443',
      BRUPOP_APISERVER_PORT_8443_TCP_ADDR: '127.0.0.1',
    });
  });

  test('keys of Secrets and ConfigMaps, one by one and all together', () => {
    const env = environmentOf(
      inputs(
        [
          { name: 'PASSWORD', valueFrom: { secretKeyRef: { name: 'settings', key: 'password' } } },
          { name: 'ABSENT', valueFrom: { secretKeyRef: { name: 'settings', key: 'no', optional: true } } },
        ],
        { envFrom: [{ prefix: 'MY_', configMapRef: { name: 'settings' } }] },
      ),
    );
    expect(env).toMatchObject({ PASSWORD: 's3cret', MY_level: 'debug' });
    expect(env).not.toHaveProperty('ABSENT');
  });

  test.each([
    ['a missing key', { name: 'settings', key: 'no' }],
    ['a missing object', { name: 'no', key: 'password' }],
  ])('%s delays the container', (_name, secretKeyRef) => {
    expect(() => environmentOf(inputs([{ name: 'A', valueFrom: { secretKeyRef } }]))).toThrow(NotYet);
  });
});

describe('the command of a container', () => {
  const make = (container: object, env = {}): ReturnType<typeof commandOf> =>
    commandOf({
      container: { name: 'main', ...container },
      image,
      hostname: 'agent-x',
      env,
      mounts: new Map([['/run', '/here/run']]),
    });

  test('the image alone', () => {
    expect(make({})).toMatchObject({ program: '/bin/node', args: ['/here/dist/help.mjs'], cwd: '/here/dist' });
  });

  test('args replace CMD and follow ENTRYPOINT', () => {
    const { args } = make({ args: ['--x', '$(FILE)', '/app/agent.mjs'] }, { FILE: '/run/a' });
    expect(args).toEqual(['--x', '/here/run/a', '/here/dist/agent.mjs']);
  });

  test('a command replaces both', () => {
    expect(make({ command: ['node', '-v'] })).toMatchObject({ program: '/bin/node', args: ['-v'] });
  });

  test('the environment is that of the image and of the container, and nothing of this process', () => {
    process.env['OF_THE_TEST'] = 'x';
    const { env } = make({}, { SOCKET: '/run/api.sock', GREETING: 'hi' });
    expect(env).toEqual({
      PATH: expect.any(String) as unknown,
      HOME: '/',
      HOSTNAME: 'agent-x',
      NODE_ENV: 'production',
      GREETING: 'hi',
      SOCKET: '/here/run/api.sock',
    });
  });

  test.each([
    ['a program that the image does not have', { command: ['sh', '-c', 'true'] }, 'program "sh"'],
    ['a working directory that it does not have', { workingDir: '/elsewhere' }, 'working directory /elsewhere'],
  ])('%s is refused', (_name, container, message) => {
    expect(() => make(container)).toThrow(message);
  });

  test('a Dockerfile instruction with an unknown effect is refused', () => {
    expect(() => imageFromDockerfile('FROM x\nSTOPSIGNAL SIGINT\n', image)).toThrow('STOPSIGNAL');
    expect(() => imageFromDockerfile('FROM x\nENTRYPOINT node\n', image)).toThrow('JSON form');
  });
});
