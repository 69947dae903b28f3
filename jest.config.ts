import type { Config } from 'jest';

const common = {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': ['@swc/jest', { jsc: { target: 'es2024', parser: { syntax: 'typescript' } } }] },
} satisfies Config;

const config: Config = {
  projects: [
    {
      ...common,
      displayName: 'unit',
      testMatch: [
        '<rootDir>/packages/*/src/**/*.test.ts',
        '<rootDir>/test/{support,demo,bench}/**/*.test.ts',
        '<rootDir>/charts/**/*.test.ts',
      ],
    },
    {
      ...common,
      displayName: 'integration',
      testMatch: ['<rootDir>/test/integration/**/*.test.ts'],
      globalSetup: '<rootDir>/test/support/jest/global-setup.ts',
      globalTeardown: '<rootDir>/test/support/jest/global-teardown.ts',
    },
    {
      ...common,
      displayName: 'fleet',
      testMatch: ['<rootDir>/test/fleet/**/*.test.ts'],
    },
    {
      ...common,
      displayName: 'connections',
      testMatch: ['<rootDir>/test/connections/**/*.test.ts'],
      globalSetup: '<rootDir>/test/support/jest/global-setup.ts',
      globalTeardown: '<rootDir>/test/support/jest/global-teardown.ts',
    },
    {
      ...common,
      displayName: 'matrix',
      testMatch: ['<rootDir>/test/matrix/**/*.test.ts'],
      globalSetup: '<rootDir>/test/support/jest/global-setup.ts',
      globalTeardown: '<rootDir>/test/support/jest/global-teardown.ts',
    },
  ],
};

export default config;
