/** The host's update status, as in its file and in `GET /updates/status`; field order matters. */
export interface UpdateStatus {
  update_state: UpdateState;
  available_updates: string[];
  chosen_update: Image | null;
  active_partition: StatusPartition | null;
  staging_partition: StatusPartition | null;
  most_recent_command: CommandResult | null;
}

export type UpdateState = 'Idle' | 'Available' | 'Staged' | 'Ready';
export type CommandType = 'refresh' | 'prepare' | 'activate' | 'deactivate';

export interface Image {
  arch: string;
  version: string;
  variant: string;
}

export interface StatusPartition {
  image: Image;
  next_to_boot: boolean;
}

export interface CommandResult {
  cmd_type: CommandType;
  cmd_status: 'Success' | 'Failed' | 'Unknown';
  /** RFC 3339 in UTC, with 0, 3, 6 or 9 fraction digits. */
  timestamp: string;
  /** Exit code or signal number. */
  exit_status: number | null;
  stderr: string | null;
}

const STATES: readonly string[] = ['Idle', 'Available', 'Staged', 'Ready'];
const TIMESTAMP = /^(.{19})(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/;

/**
 * Nanoseconds since the epoch as the host prints them: the shortest of 0, 3, 6 and 9 fraction
 * digits.
 */
export function formatTimestamp(nanoseconds: bigint): string {
  const seconds = new Date(Number(nanoseconds / 1_000_000_000n) * 1000).toISOString().slice(0, 19);
  const fraction = (nanoseconds % 1_000_000_000n)
    .toString()
    .padStart(9, '0')
    .replace(/(?:000)+$/, '');
  return fraction === '' ? `${seconds}Z` : `${seconds}.${fraction}Z`;
}

function normalizeTimestamp(text: string): string {
  const [, seconds = '', fraction = '', zone = 'Z'] = TIMESTAMP.exec(text) ?? [];
  const milliseconds = Date.parse(`${seconds}${zone}`);
  if (Number.isNaN(milliseconds)) throw new Error(`not an RFC 3339 time: "${text}"`);
  return formatTimestamp(BigInt(milliseconds) * 1_000_000n + BigInt(fraction.padEnd(9, '0')));
}

function readCommand(command: CommandResult | null | undefined): CommandResult | null {
  return command == null ? null : { ...command, timestamp: normalizeTimestamp(command.timestamp) };
}

/**
 * Reads a status file; undefined when the host's programs could not read it. Absent optional fields
 * read as null.
 */
export function parseStatus(text: string): UpdateStatus | undefined {
  try {
    const raw = JSON.parse(text) as Partial<UpdateStatus>;
    if (!STATES.includes(raw.update_state ?? '') || !Array.isArray(raw.available_updates)) return undefined;
    return {
      update_state: raw.update_state ?? 'Idle',
      available_updates: raw.available_updates,
      chosen_update: raw.chosen_update ?? null,
      active_partition: raw.active_partition ?? null,
      staging_partition: raw.staging_partition ?? null,
      most_recent_command: readCommand(raw.most_recent_command),
    };
  } catch {
    return undefined;
  }
}
