import { CONTROLLER } from '@brupop/shared/constants';
import { run } from '@brupop/shared/run';
import { readConfig } from './config.ts';
import { serve } from './service.ts';

run(CONTROLLER, (context) => serve(readConfig(context.env), context));
