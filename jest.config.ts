import type { Config } from 'jest';

const common = {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': ['@swc/jest', { jsc: { target: 'es2024', parser: { syntax: 'typescript' } } }] },
} satisfies Config;

const config: Config = {
  // On a busy machine the first test of a file takes seconds to load what it needs.
  testTimeout: 30_000,
  testSequencer: '<rootDir>/test/framework/jest/sequencer.ts',
  projects: [
    {
      ...common,
      displayName: 'unit',
      testMatch: [
        '<rootDir>/packages/*/src/**/*.test.ts',
        '<rootDir>/test/framework/**/*.test.ts',
        '<rootDir>/hack/**/*.test.ts',
      ],
    },
    {
      ...common,
      displayName: 'integration',
      testMatch: ['<rootDir>/test/integration/**/*.test.ts'],
      globalSetup: '<rootDir>/test/framework/jest/global-setup.ts',
      globalTeardown: '<rootDir>/test/framework/jest/global-teardown.ts',
    },
    {
      ...common,
      displayName: 'e2e',
      testMatch: ['<rootDir>/test/e2e/**/*.test.ts'],
    },
    {
      ...common,
      displayName: 'skew',
      testMatch: ['<rootDir>/test/skew/**/*.test.ts'],
    },
    {
      ...common,
      displayName: 'connections',
      testMatch: ['<rootDir>/test/chaos/connections/**/*.test.ts'],
      globalSetup: '<rootDir>/test/framework/jest/global-setup.ts',
      globalTeardown: '<rootDir>/test/framework/jest/global-teardown.ts',
    },
    {
      ...common,
      displayName: 'matrix',
      testMatch: ['<rootDir>/test/chaos/updates/**/*.test.ts'],
      globalSetup: '<rootDir>/test/framework/jest/global-setup.ts',
      globalTeardown: '<rootDir>/test/framework/jest/global-teardown.ts',
    },
  ],
};

export default config;
