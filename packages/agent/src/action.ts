import type { AgentStatus } from '@brupop/shared/api/shadow';
import type { UpdaterSettings } from './host/host.ts';
import type { UpdateCommand } from './limits.ts';

/** The one thing that the agent does next, and why. */
export type Action = { readonly reason: string } & (
  | /** Look again at `untilMs` on the monotonic clock, or when something changes. */ {
      readonly do: 'wait';
      readonly untilMs: number;
    }
  | /** End the process, so that the kubelet starts it with fresh mounts and environment. */ { readonly do: 'exit' }
  | /** Write the status, and have it acknowledged. */ { readonly do: 'report'; readonly status: AgentStatus }
  | /** Calls of the apiserver about the Node; reboot is one of the host. */ {
      readonly do: 'exclude' | 'restore' | 'reboot';
    }
  | /** Run one pass of the drain. */ { readonly do: 'drain'; readonly makeRoom: boolean }
  | /** Store settings on the host and have them applied. */ {
      readonly do: 'configure';
      readonly changes: Partial<UpdaterSettings>;
    }
  | /** Run a host command to its end and check its effect. */ {
      readonly do: 'command';
      readonly command: UpdateCommand;
      readonly version?: string;
      /** Version that the host is locked to: a refresh must not offer another one. */
      readonly lock?: string;
    }
);
