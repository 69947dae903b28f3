import { KubeError } from '@brupop/shared/kube/error';
import { explainError } from './errors.ts';

const forbidden = (user: string): KubeError =>
  new KubeError(
    403,
    'Forbidden',
    `GET /apis: 403 brupopconfigs.brupop.bottlerocket.aws is forbidden: User "${user}" cannot list resource ` +
      '"brupopconfigs" in API group "brupop.bottlerocket.aws" at the cluster scope',
  );

it('a right that is missing is named, with the role that has it', () => {
  expect(explainError(forbidden('alice'), 'dev')).toBe(
    'missing permission: list brupopconfigs.brupop.bottlerocket.aws in the cluster\n' +
      'The ClusterRole brupop-view has it, and so have view, edit and admin.',
  );
});

it('a request that arrives without credentials needs no role', () => {
  expect(explainError(forbidden('system:anonymous'), 'dev')).toBe(
    'context dev: the request arrived without credentials (system:anonymous): log in again, choose another --context, or ' +
      'find the proxy that drops the client certificate',
  );
});
