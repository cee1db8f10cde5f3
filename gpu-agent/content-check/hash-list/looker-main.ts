/** Main module of the process that compares files with the hash list. */
import { serveLooker } from '../looker/serve-looker.ts';
import { createHashLooker } from './hash-looker.ts';

serveLooker(createHashLooker);
