import { AGENTPOOL_RESOURCE, type AgentPool } from '@semblance/crds/gen/agentpools';
import { ownerOf, POD_RESOURCE, type Pod } from '@semblance/operator/pools/pod';
import type { Harness } from './harness.ts';

/** Time in ms after which a test gives up; even a slow machine would be done long before. */
const WAIT_MS = 40_000;

export const template = (image = 'agent:1') => ({ spec: { containers: [{ name: 'agent', image }] } });

/** Creates helpers of pool tests at the API. */
export function poolTools({ client, namespace }: Harness) {
  const get = (name: string) => client.get(AGENTPOOL_RESOURCE, { namespace, name });
  const pods = async (pool: AgentPool): Promise<Pod[]> => {
    const { items } = await client.list(POD_RESOURCE, { namespace });
    return items.filter((pod) => ownerOf(pod) === pool.metadata.uid);
  };
  return {
    get,
    pods,
    create: (name: string, spec: Partial<AgentPool['spec']>) =>
      client.create(AGENTPOOL_RESOURCE, {
        metadata: { name, namespace },
        spec: { template: template(), ...spec },
      }),
    patch: (name: string, spec: object) =>
      client.mergePatch(AGENTPOOL_RESOURCE, { namespace, name }, { spec }),
    remove: (pod: string) => client.delete(POD_RESOURCE, { namespace, name: pod }),
    /** Waits until the pool and its Pods satisfy the condition. @throws with its last status otherwise */
    async until(name: string, condition: (pool: AgentPool, pods: Pod[]) => boolean): Promise<AgentPool> {
      for (const deadline = Date.now() + WAIT_MS; ; ) {
        const pool = await get(name);
        const own = await pods(pool);
        if (condition(pool, own)) return pool;
        if (Date.now() > deadline) {
          const names = own.map(({ metadata }) => metadata.name);
          throw new Error(`not so within ${WAIT_MS} ms: ${JSON.stringify({ names, ...pool })}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
    },
  };
}

export const stands =
  (count: number) =>
  ({ status }: AgentPool, pods: Pod[]): boolean =>
    pods.length === count &&
    status?.desiredReplicas === count &&
    status.readyReplicas === count &&
    status.updatedReplicas === count &&
    status.creating === undefined &&
    status.drainingReplicas === 0;

export const conditionOf = ({ status }: AgentPool, type: string) =>
  status?.conditions?.find((each) => each.type === type);
