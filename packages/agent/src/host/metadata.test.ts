import { HostError, parseAffectedServices, parseServices } from './host.ts';

function thrownBy(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    return error;
  }
}

it('reads which services a setting affects', () => {
  const text = '{"settings.kernel.sysctl.\\"a.b\\"":["sysctl"],"settings.motd":[]}';
  expect([...parseAffectedServices(text)]).toEqual([
    ['settings.kernel.sysctl."a.b"', ['sysctl']],
    ['settings.motd', []],
  ]);
  expect(parseAffectedServices('{}').size).toBe(0);
});

it('reads how services restart', () => {
  const text =
    '{"ntp":{"configuration-files":["chrony-conf"],"restart-commands":["a","b"]},"motd":{"restart-commands":[]}}';
  expect(parseServices(text)).toEqual([
    { name: 'ntp', restartCommands: ['a', 'b'] },
    { name: 'motd', restartCommands: [] },
  ]);
});

const tooMany = JSON.stringify({ x: Array.from({ length: 101 }, () => 'y') });

it.each<readonly [string, (text: string) => unknown, string, RegExp]>([
  ['no JSON', parseAffectedServices, '<html>', /GET \/metadata\/affected-services: body: expected JSON/],
  ['a list', parseAffectedServices, '[]', /body: expected an object, found a list/],
  ['null', parseAffectedServices, 'null', /body: expected an object, found null/],
  [
    'no list of names',
    parseAffectedServices,
    '{"settings.motd":"motd"}',
    /body.settings.motd: expected a list, found "motd"/,
  ],
  [
    'no name',
    parseAffectedServices,
    '{"settings.motd":[7]}',
    /body.settings.motd\[0\]: expected the name of a service/,
  ],
  ['too many names', parseAffectedServices, tooMany, /body.x: expected a list of at most 100/],
  ['a list of services', parseServices, '[]', /GET \/services: body: expected an object, found a list/],
  ['a service that is none', parseServices, '{"ntp":null}', /body.ntp: expected an object, found null/],
  ['no commands', parseServices, '{"ntp":{}}', /body.ntp.restart-commands: expected a list/],
  [
    'no command',
    parseServices,
    '{"ntp":{"restart-commands":[null]}}',
    /restart-commands\[0\]: expected a command, found null/,
  ],
])('refuses %s and names the field', (_name, parse, text, message) => {
  const error = thrownBy(() => parse(text));
  expect(error).toBeInstanceOf(HostError);
  expect(error).toMatchObject({ kind: 'answer', message: expect.stringMatching(message) as string });
});
