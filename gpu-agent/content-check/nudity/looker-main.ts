/** Main module of the process that looks for nudity in files. */
import { serveLooker } from '../looker/serve-looker.ts';
import { createNudityLooker } from './nudity-looker.ts';

serveLooker(createNudityLooker);
