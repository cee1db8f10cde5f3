import { kubectl, list, type Pod } from './release.ts';

const LINES = 60;

/** Returns what a person would look at first after a failed step: resources, events and the end of each Pod's log. */
export async function diagnosis(): Promise<string> {
  const sections: [string, readonly string[]][] = [
    ['pods', ['get', 'pods', '-o', 'wide']],
    ['resources', ['get', 'semblance', '-o', 'wide']],
    ['events', ['get', 'events', '--sort-by=.metadata.creationTimestamp']],
  ];
  for (const pod of await list<Pod>('pods').catch(() => [])) {
    const { name } = pod.metadata;
    const logs = ['logs', name, '--all-containers', `--tail=${LINES}`];
    sections.push([`log of ${name}`, logs]);
    if ((pod.status.containerStatuses ?? []).some(({ restartCount }) => restartCount > 0))
      sections.push([`log of ${name}, before it was started again`, [...logs, '--previous']]);
  }
  const texts = await Promise.all(
    sections.map(async ([title, args]) => {
      const text = await kubectl(args).catch((error: Error) => error.message);
      return `----- ${title}\n${text.split('\n').slice(-LINES).join('\n')}`;
    }),
  );
  return texts.join('\n');
}
