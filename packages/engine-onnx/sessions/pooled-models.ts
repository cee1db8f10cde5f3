import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { CONTRACTS } from '../contracts/catalog.ts';
import type { Step } from '../manifest.ts';
import type { CheckedModel } from '../model-dir.ts';
import { Models, type RunsModels } from '../stages/models.ts';
import { PortPool, servePool } from './pool-port.ts';

/** A model as another thread receives it: its contract, which has functions, by name. */
type SentModel = Omit<CheckedModel, 'contract'> & { readonly contract: string };

/** What a thread needs to use the models of another thread's pool. */
export interface PooledModels {
  readonly port: MessagePort;
  readonly models: readonly SentModel[];
  readonly order: readonly Step[];
}

/** Lets other threads run the models of a pool. */
export class PoolShare {
  readonly #pool: RunsModels;
  readonly #models: readonly CheckedModel[];
  readonly #order: readonly Step[];
  readonly #ports = new Set<MessagePort>();

  constructor(pool: RunsModels, models: readonly CheckedModel[], order: readonly Step[]) {
    this.#pool = pool;
    this.#models = models;
    this.#order = order;
  }

  /** Returns what one more thread needs. */
  threadData(): { readonly value: PooledModels; readonly transfer: readonly MessagePort[] } {
    const { port1, port2 } = new MessageChannel();
    this.#ports.add(port1);
    port1.once('close', () => this.#ports.delete(port1));
    servePool(this.#pool, port1);
    // The port alone does not keep the process alive.
    port1.unref();
    const models = this.#models.map(({ contract, ...model }) => ({ ...model, contract: contract.name }));
    return { value: { port: port2, models, order: this.#order }, transfer: [port2] };
  }

  /** Ends the service. Requests that wait in other threads fail there. */
  close(): void {
    for (const port of this.#ports) port.close();
  }
}

/** Returns the models of a thread's data, open at the pool of the other thread. */
export function receivedModels({ port, models }: PooledModels): Models {
  return new Models(
    new PortPool(port),
    models.map((model) => {
      const contract = CONTRACTS.get(model.contract);
      if (!contract) throw new Error(`there is no contract ${model.contract}`);
      return { ...model, contract };
    }),
  );
}
