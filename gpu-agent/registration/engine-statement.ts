import { announcedOptions, type OwnerOptions } from '@semblance/common/owner-options';
import type { EngineCapability } from '@semblance/engine-api/engine';
import type { EngineSet } from '../engines/engine-set.ts';
import type { AgentStatement } from './registration.ts';

/** Returns the statement about the agent's engines in the resource, with the capabilities that lack a program. */
export function engineStatement(
  engines: EngineSet,
  liveUnavailable: readonly { readonly name: string; readonly message: string }[] = [],
): Pick<AgentStatement, 'engines' | 'unavailable' | 'unavailableNames'> {
  const unavailable = [
    ...engines.unavailable.map(({ capability, message }) => ({ name: capability, message })),
    ...liveUnavailable,
  ];
  const names = new Set<string>();
  // The resource lists engines by name, but two sidecars may run the same program.
  const ownName = (name: string): string => {
    let own = name;
    for (let count = 2; names.has(own); count++) own = `${name}-${count}`;
    names.add(own);
    return own;
  };
  return {
    engines: engines.pools.flatMap((pool) =>
      pool.engine
        ? {
            name: ownName(pool.engine.name),
            version: pool.engine.version,
            ...(pool.vramMib === undefined ? {} : { vramMib: pool.vramMib }),
            capabilities: engines.offers(pool).map((offer) => ({
              name: offer.capability,
              slots: engines.slotsOf(pool, offer),
              memoryMib: Math.max(0, Math.round(offer.memoryMib)),
              ...(offer.vramMib === undefined ? {} : { vramMib: Math.max(0, Math.round(offer.vramMib)) }),
              ...(offer.mapsFaces ? { mapsFaces: true } : {}),
              ...stated(offer, engines.ownerOf(offer.capability)),
              ...spoken(offer),
            })),
          }
        : [],
    ),
    unavailable: unavailable.map(({ name, message }) => ({ name, message: message.slice(0, 1_024) })),
    unavailableNames: unavailable.map(({ name }) => name).join(','),
  };
}

/** Returns the options of a capability as the resource lists them. */
function stated({ options = [] }: EngineCapability, owner: OwnerOptions) {
  if (options.length === 0) return {};
  return {
    options: announcedOptions(options, owner).map(({ choices, ...option }) => ({
      ...option,
      ...(choices ? { choices: [...choices] } : {}),
      ...(owner.callers.includes(option.name) ? { callers: true } : {}),
    })),
  };
}

/** Returns the voices of a capability as the resource lists them. */
function spoken({ speech }: EngineCapability) {
  if (!speech) return {};
  const { voices, variants = [], languages } = speech;
  return {
    speech: {
      voices: voices.map((voice) => ({ ...voice })),
      ...(variants.length > 0 && {
        variants: variants.map(({ name, endings }) => ({ name, endings: [...endings] })),
      }),
      languages: [...languages],
    },
  };
}
