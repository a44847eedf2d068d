# Part of the installation: has the tool write its completions and manual pages, and installs them.
# In: gpumat, the built tool; folder, where to write; data_folder and man_folder, below the prefix.
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})

# A configuration of whoever installs would change what the tool says.
set(ask ${CMAKE_COMMAND} -E env --unset=GPUMAT_CONFIG ${gpumat})
foreach(shell bash zsh fish)
  execute_process(COMMAND ${ask} completion ${shell}
    OUTPUT_FILE ${folder}/${shell} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(MAKE_DIRECTORY ${folder}/man1)
execute_process(COMMAND ${ask} manpage --to ${folder}/man1
  COMMAND_ERROR_IS_FATAL ANY)

# Debian's zsh looks for what packages bring in a folder of its own.
set(zsh_folder zsh/site-functions)
if(CMAKE_INSTALL_PREFIX MATCHES "/usr$" AND EXISTS /etc/debian_version)
  set(zsh_folder zsh/vendor-completions)
endif()
set(data ${CMAKE_INSTALL_PREFIX}/${data_folder})
file(INSTALL DESTINATION ${data}/bash-completion/completions TYPE FILE FILES ${folder}/bash RENAME gpumat)
file(INSTALL DESTINATION ${data}/${zsh_folder} TYPE FILE FILES ${folder}/zsh RENAME _gpumat)
file(INSTALL DESTINATION ${data}/fish/vendor_completions.d TYPE FILE FILES ${folder}/fish RENAME gpumat.fish)
file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${man_folder} TYPE DIRECTORY FILES ${folder}/man1)
